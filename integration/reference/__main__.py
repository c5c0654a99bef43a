"""Writes the generated pages: `python -m integration.reference`, as `make reference` calls it."""

from integration.reference.pages import DIRECTORY, texts


def main() -> None:
    """Write each page that has changed, and print its name."""
    DIRECTORY.mkdir(parents=True, exist_ok=True)
    for name, text in texts().items():
        path = DIRECTORY / name
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")
            print(f"written: docs/reference/{name}")


if __name__ == "__main__":
    main()
