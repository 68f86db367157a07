package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
)

// The types of in-toto attestations (https://in-toto.io/Statement/v1, https://slsa.dev/spec/v1.0/provenance).
const (
	statementPayload = "application/vnd.in-toto+json"
	statementType    = "https://in-toto.io/Statement/v1"
	provenanceType   = "https://slsa.dev/provenance/v1"
	sbomType         = "https://spdx.dev/Document/v2.3"
	vexType          = "https://openvex.dev/ns/v0.2.0"

	homepage = "https://github.com/criadapter/criadapter"
	// buildType identifies the way to build a release: `make release` of a commit, with the parameters in the
	// provenance.
	buildType = homepage + "/packaging/release"

	provenanceFile = "provenance" + attestationEnd
)

// statement is an in-toto statement about files of a release.
type statement struct {
	Type          string          `json:"_type"`
	Subject       []subject       `json:"subject"`
	PredicateType string          `json:"predicateType"`
	Predicate     json.RawMessage `json:"predicate"`
}

type subject struct {
	Name   string            `json:"name"`
	Digest map[string]string `json:"digest"`
}

// provenance is the needed part of SLSA's provenance.
type provenance struct {
	BuildDefinition struct {
		BuildType          string           `json:"buildType"`
		ExternalParameters externalParams   `json:"externalParameters"`
		InternalParameters map[string]any   `json:"internalParameters"`
		Dependencies       []resolvedSource `json:"resolvedDependencies"`
	} `json:"buildDefinition"`
	RunDetails struct {
		Builder struct {
			ID string `json:"id"`
		} `json:"builder"`
	} `json:"runDetails"`
}

type externalParams struct {
	Version string `json:"version"`
}

type resolvedSource struct {
	URI    string            `json:"uri"`
	Digest map[string]string `json:"digest"`
}

// attestations returns the statements about the release by their file names. There is a provenance of all files, and an
// SBOM of the files of each architecture. vex is the path of a VEX document of all files, or empty.
func (r release) attestations(ctx context.Context, vex string) (map[string]statement, error) {
	sums, err := readChecksums(r.out)
	if err != nil {
		return nil, err
	}
	predicate, err := r.provenance(ctx)
	if err != nil {
		return nil, err
	}
	made := map[string]statement{provenanceFile: newStatement(provenanceType, predicate, subjects(sums, ""))}
	if vex != "" {
		document, err := r.readVEX(vex)
		if err != nil {
			return nil, err
		}
		made[vexFile] = newStatement(vexType, document, subjects(sums, ""))
	}
	for name := range sums {
		base, isSBOM := strings.CutSuffix(name, ".spdx.json")
		if !isSBOM {
			continue
		}
		text, err := os.ReadFile(filepath.Join(r.out, name))
		if err != nil {
			return nil, err
		}
		architecture := base[strings.LastIndexByte(base, '_')+1:]
		made[base+".spdx"+attestationEnd] = newStatement(sbomType, text, subjects(sums, architecture))
	}
	return made, nil
}

func newStatement(kind string, predicate json.RawMessage, of []subject) statement {
	return statement{Type: statementType, Subject: of, PredicateType: kind, Predicate: predicate}
}

// otherNames are names of architectures in packages.
var otherNames = map[string]string{"amd64": "x86_64", "arm64": "aarch64"}

// subjects returns the files with the architecture in their name, or all files for an empty architecture.
func subjects(sums map[string]string, architecture string) []subject {
	var all []subject
	other := cmp.Or(otherNames[architecture], architecture)
	for name, sum := range sums {
		if strings.Contains(name, architecture) || strings.Contains(name, other) {
			all = append(all, subject{Name: name, Digest: map[string]string{"sha256": sum}})
		}
	}
	slices.SortFunc(all, func(a, b subject) int { return strings.Compare(a.Name, b.Name) })
	return all
}

// provenance describes the build. A signed release needs a tree without uncommitted changes.
func (r release) provenance(ctx context.Context) (json.RawMessage, error) {
	changes, err := output(ctx, r.source, nil, "git", "status", "--porcelain")
	if err != nil {
		return nil, fmt.Errorf("provenance: %w", err)
	}
	if changes != "" {
		return nil, errors.New("the tree has uncommitted changes: commit them before a signed release")
	}
	commit, err := output(ctx, r.source, nil, "git", "rev-parse", "HEAD")
	if err != nil {
		return nil, fmt.Errorf("provenance: %w", err)
	}
	var p provenance
	p.BuildDefinition.BuildType = buildType
	p.BuildDefinition.ExternalParameters = externalParams{Version: r.name}
	p.BuildDefinition.InternalParameters = map[string]any{
		"go": runtime.Version(), "SOURCE_DATE_EPOCH": r.time.Unix(),
	}
	p.BuildDefinition.Dependencies = []resolvedSource{
		{URI: "git+" + homepage, Digest: map[string]string{"gitCommit": commit}},
	}
	p.RunDetails.Builder.ID = buildType
	return json.Marshal(p)
}
