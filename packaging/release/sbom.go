package main

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// document is the needed part of an SPDX 2.3 document (https://spdx.github.io/spdx-spec/v2.3/).
type document struct {
	SPDXVersion       string         `json:"spdxVersion"`
	DataLicense       string         `json:"dataLicense"`
	SPDXID            string         `json:"SPDXID"`
	Name              string         `json:"name"`
	DocumentNamespace string         `json:"documentNamespace"`
	CreationInfo      creation       `json:"creationInfo"`
	Packages          []component    `json:"packages"`
	Relationships     []relationship `json:"relationships"`
}

type creation struct {
	Created  string   `json:"created"`
	Creators []string `json:"creators"`
}

type component struct {
	Name             string      `json:"name"`
	SPDXID           string      `json:"SPDXID"`
	VersionInfo      string      `json:"versionInfo"`
	DownloadLocation string      `json:"downloadLocation"`
	FilesAnalyzed    bool        `json:"filesAnalyzed"`
	LicenseDeclared  string      `json:"licenseDeclared,omitempty"`
	Checksums        []checksum  `json:"checksums,omitempty"`
	ExternalRefs     []reference `json:"externalRefs,omitempty"`
}

type checksum struct {
	Algorithm     string `json:"algorithm"`
	ChecksumValue string `json:"checksumValue"`
}

type reference struct {
	ReferenceCategory string `json:"referenceCategory"`
	ReferenceType     string `json:"referenceType"`
	ReferenceLocator  string `json:"referenceLocator"`
}

type relationship struct {
	SpdxElementID      string `json:"spdxElementId"`
	RelationshipType   string `json:"relationshipType"`
	RelatedSpdxElement string `json:"relatedSpdxElement"`
}

// sbom writes the modules of a build's programs, from the compiler's build information.
func (r release) sbom(b build, modules []module) error {
	name := "criadapter_" + r.version + "_linux_" + b.architecture
	d := document{
		SPDXVersion: "SPDX-2.3", DataLicense: "CC0-1.0", SPDXID: "SPDXRef-DOCUMENT", Name: name,
		CreationInfo: creation{Created: r.time.Format(time.RFC3339), Creators: []string{"Tool: criadapter-release"}},
	}
	seed := sha256.New()
	for _, program := range programs() {
		content, err := os.ReadFile(b.path(program))
		if err != nil {
			return err
		}
		sum := sha256.Sum256(content)
		seed.Write(sum[:])
		id := "SPDXRef-Program-" + program
		d.Packages = append(d.Packages, component{
			Name: program, SPDXID: id, VersionInfo: r.name,
			DownloadLocation: homepage, LicenseDeclared: "Apache-2.0",
			Checksums: []checksum{{Algorithm: "SHA256", ChecksumValue: hex.EncodeToString(sum[:])}},
		})
		d.relate("SPDXRef-DOCUMENT", "DESCRIBES", id)
	}
	// SPDX wants a unique name. Only documents with the same content share this one.
	d.DocumentNamespace = homepage + "/sbom/" + name + "-" + hex.EncodeToString(seed.Sum(nil)[:8])
	for i, module := range modules {
		id := fmt.Sprintf("SPDXRef-Module-%d", i+1)
		d.Packages = append(d.Packages, component{
			Name: module.path, SPDXID: id, VersionInfo: module.version, DownloadLocation: "NOASSERTION",
			ExternalRefs: []reference{{"PACKAGE-MANAGER", "purl", "pkg:golang/" + module.path + "@" + module.version}},
		})
		for _, program := range module.programs {
			d.relate("SPDXRef-Program-"+program, "CONTAINS", id)
		}
	}
	text, err := json.MarshalIndent(d, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(r.out, name+".spdx.json"), append(text, '\n'), 0o644)
}

func (d *document) relate(from, how, to string) {
	d.Relationships = append(d.Relationships, relationship{from, how, to})
}
