package trust

import (
	"crypto"
	"fmt"
	"os"

	"github.com/sigstore/sigstore/pkg/cryptoutils"
	"github.com/sigstore/sigstore/pkg/signature"

	"github.com/criadapter/criadapter/internal/bounded"
)

// maxKey bounds the size of a key file, in bytes.
const maxKey = 64 << 10

// verifiers reads the rule's keys. It fails if one of them cannot be read.
func (r rule) verifiers() ([]signature.Verifier, error) {
	var verifiers []signature.Verifier
	for _, path := range r.Keys {
		verifier, err := readKey(path)
		if err != nil {
			return nil, fmt.Errorf("keys of %s: %w", r.Prefix, err)
		}
		verifiers = append(verifiers, verifier)
	}
	return verifiers, nil
}

// readKey reads a public key of ECDSA, RSA (PKCS #1 v1.5) or Ed25519 as PEM, as `cosign generate-key-pair` writes it.
func readKey(path string) (signature.Verifier, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	text, err := bounded.ReadAll(file, path, maxKey)
	if err != nil {
		return nil, err
	}
	key, err := cryptoutils.UnmarshalPEMToPublicKey(text)
	if err != nil {
		return nil, fmt.Errorf("%s is not a public key as PEM: %w", path, err)
	}
	verifier, err := signature.LoadVerifier(key, crypto.SHA256)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return verifier, nil
}
