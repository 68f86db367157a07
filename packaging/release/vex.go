package main

import (
	"encoding/json"
	"fmt"
	"os"
)

// vexFile is the attestation with the vulnerabilities of linked modules that do not affect the release.
const vexFile = "vex" + attestationEnd

// readVEX reads an OpenVEX document of govulncheck (`make vex`). It fills in the author and the product, which
// govulncheck leaves open.
func (r release) readVEX(path string) (json.RawMessage, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var document map[string]any
	if err := json.Unmarshal(text, &document); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if document["@context"] != vexType {
		return nil, fmt.Errorf("%s is not a document of %s", path, vexType)
	}
	document["author"] = homepage
	statements, _ := document["statements"].([]any) // none, if no module has a known vulnerability
	for _, s := range statements {
		s, _ := s.(map[string]any)
		products, _ := s["products"].([]any)
		for _, product := range products {
			product, ok := product.(map[string]any)
			if !ok {
				return nil, fmt.Errorf("%s: a product is not an object", path)
			}
			product["@id"] = "pkg:github/criadapter/criadapter@" + r.name
		}
	}
	return json.Marshal(document)
}
