"""Kinds that controllers of elsewhere write, and that nothing here reads; a table of messages."""

from __future__ import annotations

from typing import Final

OTHERS: Final = """
EndpointAddress: 1 ip s, 2 targetRef ?ObjectReference, 3 hostname s, 4 nodeName ?s
CoreEndpointPort: 1 name s, 2 port i, 3 protocol s, 4 appProtocol ?s
EndpointSubset: 1 addresses *EndpointAddress, 2 notReadyAddresses *EndpointAddress, \
  3 ports *CoreEndpointPort
v1/Endpoints: 1 metadata ObjectMeta, 2 subsets *EndpointSubset
EndpointConditions: 1 ready ?b, 2 serving ?b, 3 terminating ?b
ForZone: 1 name s
ForNode: 1 name s
EndpointHints: 1 forZones *ForZone, 2 forNodes *ForNode
Endpoint: 1 addresses *s, 2 conditions EndpointConditions, 3 hostname ?s, \
  4 targetRef ?ObjectReference, 5 deprecatedTopology map:s, 6 nodeName ?s, 7 zone ?s, \
  8 hints ?EndpointHints
EndpointPort: 1 name ?s, 2 protocol ?s, 3 port ?i, 4 appProtocol ?s
discovery.k8s.io/v1/EndpointSlice: 1 metadata ObjectMeta, 2 endpoints *Endpoint, \
  3 ports *EndpointPort, 4 addressType s

CertificateSigningRequestSpec: 1 request x, 2 username s, 3 uid s, 4 groups *s, 5 usages *s, \
  6 extra map:ExtraValue, 7 signerName s, 8 expirationSeconds ?i
CertificateSigningRequestCondition: 1 type s, 2 reason s, 3 message s, 4 lastUpdateTime Time, \
  5 lastTransitionTime Time, 6 status s
CertificateSigningRequestStatus: 1 conditions *CertificateSigningRequestCondition, 2 certificate x
certificates.k8s.io/v1/CertificateSigningRequest: 1 metadata ObjectMeta, \
  2 spec CertificateSigningRequestSpec, 3 status CertificateSigningRequestStatus

IngressClassParameters: 1 apiGroup ?s, 2 kind s, 3 name s, 4 scope ?s, 5 namespace ?s
IngressClassSpec: 1 controller s, 2 parameters ?IngressClassParameters
networking.k8s.io/v1/IngressClass: 1 metadata ObjectMeta, 2 spec IngressClassSpec
ParentReference: 1 group s, 2 resource s, 3 namespace s, 4 name s
IPAddressSpec: 1 parentRef ?ParentReference
networking.k8s.io/v1/IPAddress: 1 metadata ObjectMeta, 2 spec IPAddressSpec
ServiceCIDRSpec: 1 cidrs *s
ServiceCIDRStatus: 1 conditions *MetaCondition
networking.k8s.io/v1/ServiceCIDR: 1 metadata ObjectMeta, 2 spec ServiceCIDRSpec, \
  3 status ServiceCIDRStatus
NetworkPolicyPort: 1 protocol ?s, 2 port ?IntOrString, 3 endPort ?i
IPBlock: 1 cidr s, 2 except *s
NetworkPolicyPeer: 1 podSelector ?LabelSelector, 2 namespaceSelector ?LabelSelector, \
  3 ipBlock ?IPBlock
NetworkPolicyIngressRule: 1 ports *NetworkPolicyPort, 2 from *NetworkPolicyPeer
NetworkPolicyEgressRule: 1 ports *NetworkPolicyPort, 2 to *NetworkPolicyPeer
NetworkPolicySpec: 1 podSelector LabelSelector, 2 ingress *NetworkPolicyIngressRule, \
  3 egress *NetworkPolicyEgressRule, 4 policyTypes *s
networking.k8s.io/v1/NetworkPolicy: 1 metadata ObjectMeta, 2 spec NetworkPolicySpec

storage.k8s.io/v1/CSIStorageCapacity: 1 metadata ObjectMeta, 2 nodeTopology ?LabelSelector, \
  3 storageClassName s, 4 capacity ?Quantity, 5 maximumVolumeSize ?Quantity
VolumeAttachmentSource: 1 persistentVolumeName ?s, 2 inlineVolumeSpec ?VolumeSpec
VolumeAttachmentSpec: 1 attacher s, 2 source VolumeAttachmentSource, 3 nodeName s
VolumeError: 1 time Time, 2 message s, 3 errorCode ?i
VolumeAttachmentStatus: 1 attached b, 2 attachmentMetadata map:s, 3 attachError ?VolumeError, \
  4 detachError ?VolumeError
storage.k8s.io/v1/VolumeAttachment: 1 metadata ObjectMeta, 2 spec VolumeAttachmentSpec, \
  3 status VolumeAttachmentStatus
storage.k8s.io/v1/VolumeAttributesClass: 1 metadata ObjectMeta, 2 driverName s, 3 parameters map:s
RuntimeOverhead: 1 podFixed map:Quantity
RuntimeScheduling: 1 nodeSelector map:s, 2 tolerations *Toleration
node.k8s.io/v1/RuntimeClass: 1 metadata ObjectMeta, 2 handler s, 3 overhead ?RuntimeOverhead, \
  4 scheduling ?RuntimeScheduling

GroupTopology: 1 key s
GroupConstraints: 1 topology *GroupTopology
GangPolicy: 1 minCount i
GroupPolicy: 1 basic ?Object, 2 gang ?GangPolicy
GroupClaim: 1 name s, 2 resourceClaimName ?s, 3 resourceClaimTemplateName ?s
GroupClaimStatus: 1 name s, 2 resourceClaimName ?s
WorkloadTemplateReference: 1 workloadName s, 2 podGroupTemplateName s
GroupTemplateReference: 1 workload ?WorkloadTemplateReference
PodGroupSpec: 1 podGroupTemplateRef ?GroupTemplateReference, 2 schedulingPolicy GroupPolicy, \
  3 schedulingConstraints ?GroupConstraints, 4 resourceClaims *GroupClaim, 5 disruptionMode ?s, \
  6 priorityClassName s, 7 priority ?i
PodGroupStatus: 1 conditions *MetaCondition, 2 resourceClaimStatuses *GroupClaimStatus
scheduling.k8s.io/v1alpha2/PodGroup: 1 metadata ObjectMeta, 2 spec PodGroupSpec, \
  3 status PodGroupStatus
PodGroupTemplate: 1 name s, 2 schedulingPolicy GroupPolicy, \
  3 schedulingConstraints ?GroupConstraints, 4 resourceClaims *GroupClaim, 5 disruptionMode ?s, \
  6 priorityClassName s, 7 priority ?i
WorkloadReference: 1 apiGroup s, 2 kind s, 3 name s
WorkloadSpec: 1 controllerRef ?WorkloadReference, 2 podGroupTemplates *PodGroupTemplate
scheduling.k8s.io/v1alpha2/Workload: 1 metadata ObjectMeta, 2 spec WorkloadSpec
CoschedulingSpec: - minMember i, - minResources map:Quantity, - scheduleTimeoutSeconds ?i
CoschedulingStatus: - phase s, - occupiedBy s, - scheduled i, - running i, - succeeded i, \
  - failed i, - scheduleStartTime Time
scheduling.x-k8s.io/v1alpha1/PodGroup: - metadata ObjectMeta, - spec CoschedulingSpec, \
  - status CoschedulingStatus

ServiceReference: 1 namespace s, 2 name s, 3 path ?s, 4 port ?i
WebhookClientConfig: 1 service ?ServiceReference, 2 caBundle x, 3 url ?s
MatchCondition: 1 name s, 2 expression s
AdmissionRule: 1 apiGroups *s, 2 apiVersions *s, 3 resources *s, 4 scope ?s
RuleWithOperations: 1 operations *s, 2 - AdmissionRule
MutatingWebhook: 1 name s, 2 clientConfig WebhookClientConfig, 3 rules *RuleWithOperations, \
  4 failurePolicy ?s, 5 namespaceSelector ?LabelSelector, 6 sideEffects ?s, 7 timeoutSeconds ?i, \
  8 admissionReviewVersions *s, 9 matchPolicy ?s, 10 reinvocationPolicy ?s, \
  11 objectSelector ?LabelSelector, 12 matchConditions *MatchCondition
ValidatingWebhook: 1 name s, 2 clientConfig WebhookClientConfig, 3 rules *RuleWithOperations, \
  4 failurePolicy ?s, 5 namespaceSelector ?LabelSelector, 6 sideEffects ?s, 7 timeoutSeconds ?i, \
  8 admissionReviewVersions *s, 9 matchPolicy ?s, 10 objectSelector ?LabelSelector, \
  11 matchConditions *MatchCondition
admissionregistration.k8s.io/v1/MutatingWebhookConfiguration: 1 metadata ObjectMeta, \
  2 webhooks *MutatingWebhook
admissionregistration.k8s.io/v1/ValidatingWebhookConfiguration: 1 metadata ObjectMeta, \
  2 webhooks *ValidatingWebhook
ParamKind: 1 apiVersion s, 2 kind s
NamedRule: 1 resourceNames *s, 2 - RuleWithOperations
MatchResources: 1 namespaceSelector ?LabelSelector, 2 objectSelector ?LabelSelector, \
  3 resourceRules *NamedRule, 4 excludeResourceRules *NamedRule, 7 matchPolicy ?s
Validation: 1 expression s, 2 message s, 3 reason ?s, 4 messageExpression s
AuditAnnotation: 1 key s, 2 valueExpression s
Variable: 1 name s, 2 expression s
ExpressionWarning: 2 fieldRef s, 3 warning s
TypeChecking: 1 expressionWarnings *ExpressionWarning
AdmissionPolicySpec: 1 paramKind ?ParamKind, 2 matchConstraints ?MatchResources, \
  3 validations *Validation, 4 failurePolicy ?s, 5 auditAnnotations *AuditAnnotation, \
  6 matchConditions *MatchCondition, 7 variables *Variable
AdmissionPolicyStatus: 1 observedGeneration l, 2 typeChecking ?TypeChecking, \
  3 conditions *MetaCondition
admissionregistration.k8s.io/v1/ValidatingAdmissionPolicy: 1 metadata ObjectMeta, \
  2 spec AdmissionPolicySpec, 3 status AdmissionPolicyStatus
ParamRef: 1 name s, 2 namespace s, 3 selector ?LabelSelector, 4 parameterNotFoundAction ?s
AdmissionBindingSpec: 1 policyName s, 2 paramRef ?ParamRef, 3 matchResources ?MatchResources, \
  4 validationActions *s
admissionregistration.k8s.io/v1/ValidatingAdmissionPolicyBinding: 1 metadata ObjectMeta, \
  2 spec AdmissionBindingSpec

DefinitionNames: 1 plural s, 2 singular s, 3 shortNames *s, 4 kind s, 5 listKind s, 6 categories *s
DefinitionColumn: 1 name s, 2 type s, 3 format s, 4 description s, 5 priority i, 6 jsonPath s
DefinitionSchema: - openAPIV3Schema Object
DefinitionScale: 1 specReplicasPath s, 2 statusReplicasPath s, 3 labelSelectorPath ?s
DefinitionSubresources: 1 status ?Object, 2 scale ?DefinitionScale
SelectableField: 1 jsonPath s
DefinitionVersion: 1 name s, 2 served b, 3 storage b, 4 schema ?DefinitionSchema, \
  5 subresources ?DefinitionSubresources, 6 additionalPrinterColumns *DefinitionColumn, \
  7 deprecated b, 8 deprecationWarning ?s, 9 selectableFields *SelectableField
WebhookConversion: 2 clientConfig ?WebhookClientConfig, 3 conversionReviewVersions *s
DefinitionConversion: 1 strategy s, 2 webhook ?WebhookConversion
DefinitionCondition: 1 type s, 2 status s, 3 lastTransitionTime Time, 4 reason s, 5 message s, \
  - observedGeneration l
DefinitionSpec: 1 group s, 3 names DefinitionNames, 4 scope s, 7 versions *DefinitionVersion, \
  9 conversion ?DefinitionConversion, 10 preserveUnknownFields b
DefinitionStatus: 1 conditions *DefinitionCondition, 2 acceptedNames DefinitionNames, \
  3 storedVersions *s, - observedGeneration l
apiextensions.k8s.io/v1/CustomResourceDefinition: 1 metadata ObjectMeta, 2 spec DefinitionSpec, \
  3 status DefinitionStatus

FlowDistinguisher: 1 type s
PriorityLevelReference: 1 name s
UserSubject: 1 name s
GroupSubject: 1 name s
AccountSubject: 1 namespace s, 2 name s
FlowSubject: 1 kind s, 2 user ?UserSubject, 3 group ?GroupSubject, 4 serviceAccount ?AccountSubject
FlowResourceRule: 1 verbs *s, 2 apiGroups *s, 3 resources *s, 4 clusterScope b, 5 namespaces *s
FlowNonResourceRule: 1 verbs *s, 6 nonResourceURLs *s
FlowRule: 1 subjects *FlowSubject, 2 resourceRules *FlowResourceRule, \
  3 nonResourceRules *FlowNonResourceRule
FlowSchemaSpec: 1 priorityLevelConfiguration PriorityLevelReference, 2 matchingPrecedence i, \
  3 distinguisherMethod ?FlowDistinguisher, 4 rules *FlowRule
FlowSchemaStatus: 1 conditions *SetCondition
flowcontrol.apiserver.k8s.io/v1/FlowSchema: 1 metadata ObjectMeta, 2 spec FlowSchemaSpec, \
  3 status FlowSchemaStatus
Queuing: 1 queues i, 2 handSize i, 3 queueLengthLimit i
LimitResponse: 1 type s, 2 queuing ?Queuing
LimitedLevel: 1 nominalConcurrencyShares ?i, 2 limitResponse LimitResponse, 3 lendablePercent ?i, \
  4 borrowingLimitPercent ?i
ExemptLevel: 1 nominalConcurrencyShares ?i, 2 lendablePercent ?i
PriorityLevelSpec: 1 type s, 2 limited ?LimitedLevel, 3 exempt ?ExemptLevel
PriorityLevelStatus: 1 conditions *SetCondition
flowcontrol.apiserver.k8s.io/v1/PriorityLevelConfiguration: 1 metadata ObjectMeta, \
  2 spec PriorityLevelSpec, 3 status PriorityLevelStatus
"""
