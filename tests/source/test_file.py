"""Text for XML documents."""

from __future__ import annotations

from xml.etree import ElementTree as ET

from hypothesis import given, strategies as st

from policy_sched.source.file import xml_text


@given(st.text())
def test_every_text_can_be_read_again(text: str) -> None:
    """What comes out is what a reader of XML gets, but for the line breaks that it unifies."""
    root = ET.Element("a")
    root.text = xml_text(text)
    read = ET.fromstring(ET.tostring(root)).text or ""
    assert read == xml_text(text).replace("\r\n", "\n").replace("\r", "\n")
    assert len(xml_text(text)) == len(text)


def test_plain_text_stays() -> None:
    """Letters of all kinds, tabs and line breaks; what XML never has is replaced."""
    assert xml_text("é\t😀\n") == "é\t😀\n"
    assert xml_text("a\x00b\x1b") == "a\ufffdb\ufffd"
