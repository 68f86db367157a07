package main

import (
	"bytes"
	"context"
	"crypto"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/secure-systems-lab/go-securesystemslib/dsse"
	"github.com/sigstore/sigstore/pkg/cryptoutils"
	"github.com/sigstore/sigstore/pkg/signature"
	sigstoredsse "github.com/sigstore/sigstore/pkg/signature/dsse"
)

const (
	// signatureFile is the signature of the list of checksums, in base64, as `cosign sign-blob` writes it.
	signatureFile = checksumsFile + ".sig"
	// attestationEnd ends the names of attestations. Each has one DSSE envelope.
	attestationEnd = ".intoto.jsonl"
	// passwordVariable has the password of an encrypted key, as cosign reads it.
	passwordVariable = "COSIGN_PASSWORD"
)

// sign signs the list of checksums, and the release's attestations. vex is the path of a VEX document, or empty.
func (r release) sign(ctx context.Context, keyFile, vex string) error {
	key, err := readPrivateKey(keyFile)
	if err != nil {
		return err
	}
	attestations, err := r.attestations(ctx, vex)
	if err != nil {
		return err
	}
	list, err := os.ReadFile(filepath.Join(r.out, checksumsFile))
	if err != nil {
		return err
	}
	sig, err := key.SignMessage(bytes.NewReader(list))
	if err != nil {
		return fmt.Errorf("sign %s: %w", checksumsFile, err)
	}
	text := base64.StdEncoding.EncodeToString(sig)
	if err := os.WriteFile(filepath.Join(r.out, signatureFile), []byte(text), 0o644); err != nil {
		return err
	}
	for name, s := range attestations {
		envelope, err := s.sign(ctx, key)
		if err != nil {
			return fmt.Errorf("sign %s: %w", name, err)
		}
		if err := os.WriteFile(filepath.Join(r.out, name), append(envelope, '\n'), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// readPrivateKey reads a private key as PEM. An encrypted one needs its password in passwordVariable.
func readPrivateKey(path string) (signature.Signer, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	password := func(bool) ([]byte, error) {
		password, set := os.LookupEnv(passwordVariable)
		if !set {
			return nil, errors.New("the key is encrypted: set " + passwordVariable)
		}
		return []byte(password), nil
	}
	key, err := cryptoutils.UnmarshalPEMToPrivateKey(text, password)
	if err != nil {
		return nil, fmt.Errorf("private key %s: %w", path, err)
	}
	return signature.LoadSigner(key, crypto.SHA256)
}

// sign returns the statement in a signed DSSE envelope.
func (s statement) sign(ctx context.Context, key signature.Signer) ([]byte, error) {
	payload, err := json.Marshal(s)
	if err != nil {
		return nil, err
	}
	signer, err := dsse.NewEnvelopeSigner(&sigstoredsse.SignerAdapter{SignatureSigner: key})
	if err != nil {
		return nil, err
	}
	envelope, err := signer.SignPayload(ctx, statementPayload, payload)
	if err != nil {
		return nil, err
	}
	return json.Marshal(envelope)
}
