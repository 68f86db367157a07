package main

import (
	"bytes"
	"cmp"
	"crypto/elliptic"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/secure-systems-lab/go-securesystemslib/dsse"
	"github.com/sigstore/sigstore/pkg/cryptoutils"
	sigstoredsse "github.com/sigstore/sigstore/pkg/signature/dsse"

	"github.com/criadapter/criadapter/internal/testutil"
)

// signedRelease signs a release of two files and an SBOM, made from a repository with one commit. It returns the
// directories of the release and of its keys.
func signedRelease(t *testing.T) (out, keys string) {
	t.Helper()
	t.Setenv(passwordVariable, "secret")
	source, out, keys := t.TempDir(), t.TempDir(), t.TempDir()
	for _, args := range [][]string{{"init", "--quiet"}, {"-c", "user.name=x", "-c", "user.email=x@example.com",
		"commit", "--quiet", "--allow-empty", "--message", "x"}} {
		cmd := exec.CommandContext(t.Context(), "git", args...)
		cmd.Dir = source
		text, err := cmd.CombinedOutput()
		testutil.Require(t, err == nil, "git %q: %v: %s", args, err, text)
	}
	private, public, err := cryptoutils.GeneratePEMEncodedECDSAKeyPair(elliptic.P256(),
		cryptoutils.StaticPasswordFunc([]byte("secret")))
	testutil.Must(t, err)
	testutil.WriteFile(t, filepath.Join(keys, "cosign.key"), string(private))
	testutil.WriteFile(t, filepath.Join(keys, "cosign.pub"), string(public))
	for name, text := range map[string]string{"a_1_amd64.deb": "deb", "a-1.aarch64.rpm": "rpm",
		"a_1_linux_arm64.spdx.json": `{"spdxVersion": "SPDX-2.3"}`} {
		testutil.WriteFile(t, filepath.Join(out, name), text)
	}
	r := release{name: "v1.0.0", version: "1.0.0", time: commitTime, source: source, out: out}
	testutil.Must(t, r.checksums())
	vex := filepath.Join(keys, "vex.json")
	testutil.WriteFile(t, vex, `{"@context": "`+vexType+`", "author": "Unknown Author", "statements": [
		{"vulnerability": {"name": "GO-1"}, "products": [{"@id": "Unknown Product"}], "status": "not_affected"}]}`)
	testutil.Must(t, r.sign(t.Context(), filepath.Join(keys, "cosign.key"), vex))
	return out, keys
}

func TestSubjects(t *testing.T) {
	sums := map[string]string{"a_1_amd64.deb": "1", "a-1.x86_64.rpm": "2", "a_1_linux_riscv64.tar.gz": "3"}
	for architecture, want := range map[string][]string{
		"":        {"a-1.x86_64.rpm", "a_1_amd64.deb", "a_1_linux_riscv64.tar.gz"},
		"amd64":   {"a-1.x86_64.rpm", "a_1_amd64.deb"},
		"riscv64": {"a_1_linux_riscv64.tar.gz"},
	} {
		var names []string
		for _, s := range subjects(sums, architecture) {
			names = append(names, s.Name)
		}
		testutil.Assert(t, slices.Equal(names, want), "%q: %q, want %q", architecture, names, want)
	}
}

func TestSignedReleaseIsVerified(t *testing.T) {
	out, keys := signedRelease(t)
	made, err := verify(t.Context(), out, filepath.Join(keys, "cosign.pub"))
	testutil.Must(t, err)
	testutil.Assert(t, strings.HasPrefix(made, "3 files and 3 attestations are signed; version v1.0.0 of commit "),
		"verified as %q", made)
	key, err := readPublicKey(filepath.Join(keys, "cosign.pub"))
	testutil.Must(t, err)
	s, err := openAttestation(t.Context(), filepath.Join(out, "a_1_linux_arm64.spdx"+attestationEnd), key)
	testutil.Must(t, err)
	testutil.Assert(t, len(s.Subject) == 2 && s.Subject[0].Name == "a-1.aarch64.rpm",
		"the SBOM of arm64 is about %v", s.Subject)
	s, err = openAttestation(t.Context(), filepath.Join(out, vexFile), key)
	testutil.Must(t, err)
	for _, part := range []string{homepage, "pkg:github/criadapter/criadapter@v1.0.0", "not_affected"} {
		testutil.Assert(t, strings.Contains(string(s.Predicate), part), "VEX document %s lacks %q", s.Predicate, part)
	}
}

func TestChangedReleaseIsNotVerified(t *testing.T) {
	signed, keys := signedRelease(t) // once, because encrypting a key takes long
	otherSigned, otherKeys := signedRelease(t)
	for name, test := range map[string]struct {
		change func(t *testing.T, out string)
		keys   string
		want   string
	}{
		"a byte of a package": {func(t *testing.T, out string) {
			testutil.WriteFile(t, filepath.Join(out, "a_1_amd64.deb"), "Deb")
		}, keys, "a_1_amd64.deb is not the file that was released"},
		"a missing package": {func(t *testing.T, out string) {
			testutil.Must(t, os.Remove(filepath.Join(out, "a_1_amd64.deb")))
		}, keys, "a_1_amd64.deb: no such file"},
		"one more file": {func(t *testing.T, out string) {
			testutil.WriteFile(t, filepath.Join(out, "more.deb"), "")
		}, keys, "more.deb is not part of the release"},
		"the list of another release": {func(t *testing.T, out string) {
			testutil.Must(t, release{out: out}.checksums())
		}, keys, "not a signature of SHA256SUMS by this key"},
		"no signature": {func(t *testing.T, out string) {
			testutil.Must(t, os.Remove(filepath.Join(out, signatureFile)))
		}, keys, "SHA256SUMS.sig: no such file"},
		"another key": {func(*testing.T, string) {}, otherKeys, "not a signature of SHA256SUMS by this key"},
		"no provenance": {func(t *testing.T, out string) {
			testutil.Must(t, os.Remove(filepath.Join(out, provenanceFile)))
		}, keys, "no attestation is a provenance"},
		"a provenance of another key": {func(t *testing.T, out string) {
			text := testutil.ReadFile(t, filepath.Join(otherSigned, provenanceFile))
			testutil.WriteFile(t, filepath.Join(out, provenanceFile), text)
		}, keys, "provenance.intoto.jsonl: not signed by this key"},
	} {
		t.Run(name, func(t *testing.T) {
			out := t.TempDir()
			testutil.Must(t, os.CopyFS(out, os.DirFS(signed)))
			test.change(t, out)
			_, err := verify(t.Context(), out, filepath.Join(test.keys, "cosign.pub"))
			testutil.Require(t, err != nil, "verified, want error %q", test.want)
			testutil.Assert(t, strings.Contains(err.Error(), test.want), "error %q, want %q", err, test.want)
		})
	}
}

// A statement that the release's key signed is refused if it is not about this release.
func TestOtherStatementIsNotVerified(t *testing.T) {
	out, keys := signedRelease(t)
	path, public := filepath.Join(out, provenanceFile), filepath.Join(keys, "cosign.pub")
	verifier, err := readPublicKey(public)
	testutil.Must(t, err)
	made, err := openAttestation(t.Context(), path, verifier)
	testutil.Must(t, err)
	key, err := readPrivateKey(filepath.Join(keys, "cosign.key"))
	testutil.Must(t, err)
	signer, err := dsse.NewEnvelopeSigner(&sigstoredsse.SignerAdapter{SignatureSigner: key})
	testutil.Must(t, err)
	for name, test := range map[string]struct {
		change func(s *statement)
		// payload is the type of the signed payload, empty for the type of a statement.
		payload string
		want    string
	}{
		"another release": {func(s *statement) {
			s.Subject = subjects(map[string]string{"a_1_amd64.deb": "1"}, "")
		}, "", "about another file a_1_amd64.deb"},
		"another file": {func(s *statement) {
			s.Subject = append([]subject{{Name: "b.deb"}}, s.Subject[1:]...)
		}, "", "about another file b.deb"},
		"some files": {func(s *statement) { s.Subject = s.Subject[1:] }, "", "about 2 files, and the release has 3"},
		"another build": {func(s *statement) {
			s.Predicate = bytes.Replace(s.Predicate, []byte(buildType), []byte("x"), 1)
		}, "", `of a build of type "x"`},
		"no commit": {func(s *statement) {
			s.Predicate = json.RawMessage(`{"buildDefinition": {"buildType": "` + buildType + `"}}`)
		}, "", "names 0 sources"},
		"another predicate": {func(s *statement) { s.PredicateType = "x" }, "", `states "x" of type`},
		"another statement": {func(s *statement) { s.Type = "x" }, "", `of type "x"`},
		"another payload":   {func(*statement) {}, "text/plain", "states"},
	} {
		t.Run(name, func(t *testing.T) {
			s := made
			test.change(&s)
			payload, err := json.Marshal(s)
			testutil.Must(t, err)
			envelope, err := signer.SignPayload(t.Context(), cmp.Or(test.payload, statementPayload), payload)
			testutil.Must(t, err)
			text, err := json.Marshal(envelope)
			testutil.Must(t, err)
			testutil.WriteFile(t, path, string(text))
			_, err = verify(t.Context(), out, public)
			testutil.Assert(t, err != nil && strings.HasPrefix(err.Error(), provenanceFile+": it ") &&
				strings.Contains(err.Error(), test.want), "error %v, want %q", err, test.want)
		})
	}
}

func TestChangedTreeIsNotSigned(t *testing.T) {
	out, keys := signedRelease(t)
	source := t.TempDir()
	cmd := exec.CommandContext(t.Context(), "git", "init", "--quiet", source)
	testutil.Must(t, cmd.Run())
	testutil.WriteFile(t, filepath.Join(source, "new"), "")
	r := release{name: "v1.0.0", source: source, out: out}
	err := r.sign(t.Context(), filepath.Join(keys, "cosign.key"), "")
	testutil.Assert(t, err != nil && strings.Contains(err.Error(), "commit them before a signed release"), "got %v",
		err)
}

func TestInvalidVEXIsRefused(t *testing.T) {
	path := filepath.Join(t.TempDir(), "vex.json")
	for text, want := range map[string]string{
		"{": "unexpected end", `{"@context": "x"}`: "not a document of",
		`{"@context": "` + vexType + `", "statements": [{"products": [1]}]}`: "not an object",
	} {
		testutil.WriteFile(t, path, text)
		_, err := release{}.readVEX(path)
		testutil.Require(t, err != nil, "%s is valid", text)
		testutil.Assert(t, strings.Contains(err.Error(), want), "%s: error %q, want %q", text, err, want)
	}
}
