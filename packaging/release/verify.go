package main

import (
	"bytes"
	"context"
	"crypto"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/secure-systems-lab/go-securesystemslib/dsse"
	"github.com/sigstore/sigstore/pkg/cryptoutils"
	"github.com/sigstore/sigstore/pkg/signature"
	sigstoredsse "github.com/sigstore/sigstore/pkg/signature/dsse"
)

// verify verifies a signed release in a directory by a public key, and returns a sentence with its commit. It fails for
// a listed file that is changed or missing, for an additional file, and without a provenance of all files. It does not
// notice that another attestation is missing, because the list has no attestations.
func verify(ctx context.Context, dir, keyFile string) (string, error) {
	key, err := readPublicKey(keyFile)
	if err != nil {
		return "", err
	}
	if err := verifyList(dir, key); err != nil {
		return "", err
	}
	sums, err := readChecksums(dir)
	if err != nil {
		return "", err
	}
	if err := verifyFiles(dir, sums); err != nil {
		return "", err
	}
	attestations, err := filepath.Glob(filepath.Join(dir, "*"+attestationEnd))
	if err != nil {
		return "", err
	}
	var made string
	for _, path := range attestations {
		s, err := openAttestation(ctx, path, key)
		if err == nil {
			err = s.checkSubjects(sums)
		}
		if err == nil && s.PredicateType == provenanceType {
			made, err = s.origin(len(sums))
		}
		if err != nil {
			return "", fmt.Errorf("%s: %w", filepath.Base(path), err)
		}
	}
	if made == "" {
		return "", errors.New("no attestation is a provenance of the release")
	}
	return fmt.Sprintf("%d files and %d attestations are signed; %s", len(sums), len(attestations), made), nil
}

func readPublicKey(path string) (signature.Verifier, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	key, err := cryptoutils.UnmarshalPEMToPublicKey(text)
	if err != nil {
		return nil, fmt.Errorf("public key %s: %w", path, err)
	}
	return signature.LoadVerifier(key, crypto.SHA256)
}

// verifyList verifies the signature of the list of checksums.
func verifyList(dir string, key signature.Verifier) error {
	list, err := os.ReadFile(filepath.Join(dir, checksumsFile))
	if err != nil {
		return err
	}
	text, err := os.ReadFile(filepath.Join(dir, signatureFile))
	if err != nil {
		return err
	}
	sig, err := base64.StdEncoding.DecodeString(strings.TrimSpace(string(text)))
	if err != nil {
		return fmt.Errorf("%s: %w", signatureFile, err)
	}
	if err := key.VerifySignature(bytes.NewReader(sig), bytes.NewReader(list)); err != nil {
		return fmt.Errorf("%s is not a signature of %s by this key: %w", signatureFile, checksumsFile, err)
	}
	return nil
}

// readChecksums returns the checksums of the list by the names of the files.
func readChecksums(dir string) (map[string]string, error) {
	text, err := os.ReadFile(filepath.Join(dir, checksumsFile))
	if err != nil {
		return nil, err
	}
	sums := map[string]string{}
	for line := range strings.Lines(string(text)) {
		sum, name, found := strings.Cut(strings.TrimSuffix(line, "\n"), "  ")
		if !found || name == "" || name != filepath.Base(name) {
			return nil, fmt.Errorf("%s: not a line of sha256sum: %q", checksumsFile, line)
		}
		sums[name] = sum
	}
	return sums, nil
}

// verifyFiles compares the files with the list.
func verifyFiles(dir string, sums map[string]string) error {
	var errs []error
	for name, want := range sums {
		content, err := os.ReadFile(filepath.Join(dir, name))
		if err == nil && fmt.Sprintf("%x", sha256.Sum256(content)) != want {
			err = fmt.Errorf("%s is not the file that was released", name)
		}
		errs = append(errs, err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, entry := range entries {
		name := entry.Name()
		_, listed := sums[name]
		if !listed && name != checksumsFile && name != signatureFile && !strings.HasSuffix(name, attestationEnd) {
			errs = append(errs, fmt.Errorf("%s is not part of the release", name))
		}
	}
	return errors.Join(errs...)
}

// openAttestation returns the statement in an envelope that the key signed.
func openAttestation(ctx context.Context, path string, key signature.Verifier) (statement, error) {
	var s statement
	text, err := os.ReadFile(path)
	if err != nil {
		return s, err
	}
	var envelope dsse.Envelope
	if err := json.Unmarshal(text, &envelope); err != nil {
		return s, err
	}
	verifier, err := dsse.NewEnvelopeVerifier(&sigstoredsse.VerifierAdapter{SignatureVerifier: key})
	if err != nil {
		return s, err
	}
	if _, err := verifier.Verify(ctx, &envelope); err != nil {
		return s, fmt.Errorf("not signed by this key: %w", err)
	}
	payload, err := envelope.DecodeB64Payload()
	if err != nil {
		return s, err
	}
	if err := json.Unmarshal(payload, &s); err != nil {
		return s, err
	}
	if envelope.PayloadType != statementPayload || s.Type != statementType ||
		!slices.Contains([]string{provenanceType, sbomType, vexType}, s.PredicateType) {
		return s, fmt.Errorf("it states %q of type %q", s.PredicateType, s.Type)
	}
	return s, nil
}

// checkSubjects fails if a subject is not the file of that name in the release.
func (s statement) checkSubjects(sums map[string]string) error {
	for _, of := range s.Subject {
		if sums[of.Name] == "" || of.Digest["sha256"] != sums[of.Name] {
			return fmt.Errorf("it is about another file %s", of.Name)
		}
	}
	return nil
}

// origin returns the version and commit that a provenance names. It fails unless the provenance is about this number of
// files.
func (s statement) origin(files int) (string, error) {
	if len(s.Subject) != files {
		return "", fmt.Errorf("it is about %d files, and the release has %d", len(s.Subject), files)
	}
	var p provenance
	if err := json.Unmarshal(s.Predicate, &p); err != nil {
		return "", err
	}
	sources := p.BuildDefinition.Dependencies
	if p.BuildDefinition.BuildType != buildType {
		return "", fmt.Errorf("it is of a build of type %q", p.BuildDefinition.BuildType)
	}
	if len(sources) != 1 {
		return "", fmt.Errorf("it names %d sources, and a release has one", len(sources))
	}
	return fmt.Sprintf("version %s of commit %s", p.BuildDefinition.ExternalParameters.Version,
		sources[0].Digest["gitCommit"]), nil
}
