package trust

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/opencontainers/go-digest"
	"github.com/secure-systems-lab/go-securesystemslib/dsse"
	"github.com/sigstore/sigstore/pkg/signature"
	sigstoredsse "github.com/sigstore/sigstore/pkg/signature/dsse"
)

// Media and predicate types of signatures.
const (
	simpleSigningLayer = "application/vnd.dev.cosign.simplesigning.v1+json"
	simpleSigningType  = "cosign container image signature"
	bundlePrefix       = "application/vnd.dev.sigstore.bundle"
	statementPayload   = "application/vnd.in-toto+json"
	statementType      = "https://in-toto.io/Statement/v1"
	signPredicate      = "https://sigstore.dev/cosign/sign/v1"
)

// evidence is one signature as a registry has it: a payload of simple signing with its signature, or a bundle.
type evidence struct {
	Payload   []byte          `json:"payload,omitempty"`
	Signature []byte          `json:"signature,omitempty"`
	Bundle    json.RawMessage `json:"bundle,omitempty"`
}

// verify returns nil if the evidence is a signature of the image with this manifest digest by one of the keys.
func (e evidence) verify(image digest.Digest, keys []signature.Verifier) error {
	if e.Bundle != nil {
		return verifyBundle(e.Bundle, image, keys)
	}
	if !signedBy(keys, e.Signature, e.Payload) {
		return errOtherKey
	}
	// The payload is trusted from here on.
	var payload struct {
		Critical struct {
			Type  string
			Image struct {
				Digest digest.Digest `json:"docker-manifest-digest"`
			}
		}
	}
	if err := json.Unmarshal(e.Payload, &payload); err != nil {
		return fmt.Errorf("its payload is not simple signing: %w", err)
	}
	if payload.Critical.Type != simpleSigningType {
		return fmt.Errorf("its payload has the type %q, a signature has %q", payload.Critical.Type, simpleSigningType)
	}
	return sameDigest(payload.Critical.Image.Digest, image)
}

var errOtherKey = errors.New("it was not made by a key of the rule")

func signedBy(keys []signature.Verifier, sig, message []byte) bool {
	for _, key := range keys {
		if key.VerifySignature(bytes.NewReader(sig), bytes.NewReader(message)) == nil {
			return true
		}
	}
	return false
}

func sameDigest(got, want digest.Digest) error {
	if got != want {
		return fmt.Errorf("it is a signature of another image, %s", got)
	}
	return nil
}

// verifyBundle verifies a Sigstore bundle with a DSSE envelope, whose in-toto statement says that cosign signed the
// image. A statement of another kind, such as an SBOM, is not a signature of the image.
func verifyBundle(text []byte, image digest.Digest, keys []signature.Verifier) error {
	var bundle struct {
		Envelope *dsse.Envelope `json:"dsseEnvelope"`
	}
	if err := json.Unmarshal(text, &bundle); err != nil {
		return fmt.Errorf("it is not a bundle: %w", err)
	}
	if bundle.Envelope == nil {
		return errors.New("its bundle has no DSSE envelope")
	}
	payload, err := openEnvelope(bundle.Envelope, keys)
	if err != nil {
		return err
	}
	var statement struct {
		Type          string `json:"_type"`
		PredicateType string `json:"predicateType"`
		Subject       []struct {
			Digest map[string]string `json:"digest"`
		} `json:"subject"`
	}
	if err := json.Unmarshal(payload, &statement); err != nil {
		return fmt.Errorf("its statement is not JSON: %w", err)
	}
	if statement.Type != statementType || statement.PredicateType != signPredicate {
		return fmt.Errorf("it states %q, a signature states %q", statement.PredicateType, signPredicate)
	}
	var subjects []string
	for _, subject := range statement.Subject {
		if subject.Digest[image.Algorithm().String()] == image.Encoded() {
			return nil
		}
		subjects = append(subjects, fmt.Sprint(subject.Digest))
	}
	return fmt.Errorf("it is a signature of other images, %s", strings.Join(subjects, ", "))
}

// openEnvelope returns the payload of an envelope that one of the keys signed.
func openEnvelope(envelope *dsse.Envelope, keys []signature.Verifier) ([]byte, error) {
	if envelope.PayloadType != statementPayload {
		return nil, fmt.Errorf("its envelope has a payload of type %q, not %q", envelope.PayloadType, statementPayload)
	}
	for _, key := range keys {
		verifier, err := dsse.NewEnvelopeVerifier(&sigstoredsse.VerifierAdapter{SignatureVerifier: key})
		if err != nil {
			return nil, err
		}
		// The key is in memory, so the check waits for nothing.
		if _, err := verifier.Verify(context.Background(), envelope); err == nil {
			return envelope.DecodeB64Payload()
		}
	}
	return nil, errOtherKey
}
