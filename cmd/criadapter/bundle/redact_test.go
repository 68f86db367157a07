package bundle

import (
	"bytes"
	"strings"
	"testing"

	"github.com/criadapter/criadapter/internal/testutil"
)

func TestRedact(t *testing.T) {
	for text, kept := range map[string]string{
		"proxy http://joe:hunter2@proxy:3128/":              "proxy http://REDACTED@proxy:3128/",
		"Authorization: Bearer hunter2.abc":                 "Authorization: ",
		`{"password":"hunter2","user":"joe"}`:               `"user":"joe"`,
		`msg="pull failed" body="{\"token\": \"hunter2\"}"`: `msg="pull failed"`,
		"REGISTRY_PASSWORD=hunter2 HOME=/root":              "HOME=/root",
		"run --db-password hunter2 --verbose":               "--verbose",
		"run --token=hunter2 --verbose":                     "--verbose",
		"x eyJhbGciOi.eyJzdWIiOi.hunter2 y":                 "x REDACTED y",
		"-----BEGIN RSA PRIVATE KEY-----\nhunter2\n-----END RSA PRIVATE KEY-----\n" +
			"next": "next",
		"-----BEGIN PRIVATE KEY-----\nhunter2 cut off":                                   "BEGIN PRIVATE KEY",
		"cut off hunter2\n-----END PRIVATE KEY-----\nnext":                               "REDACTED\nnext",
		"hunter2\n-----END PRIVATE KEY-----\nnext\n-----BEGIN PRIVATE KEY-----\nhunter2": "\nnext\n",
		`"private_key": "-----BEGIN PRIVATE KEY-----\nhunter2\n-----END PRIVATE KEY-----\n", ` +
			`"next"`: `"next"`,
		"aws_secret_access_key: hunter2":                       "aws_secret_access_key: REDACTED",
		"https://joe:hunter2@x@host/":                          "https://REDACTED@host/",
		`password="hunter1 hunter2" next`:                      `password="REDACTED" next`,
		`--db-password "hunter1 \" hunter2" --verbose`:         `"REDACTED" --verbose`,
		`passwd: 'hunter1 hunter2' next`:                       `passwd: 'REDACTED' next`,
		`body="{\"secret\": \"hunter1 \\\" hunter2\", \"a\"}"`: `\"REDACTED\", \"a\"}"`,
		"password: ab,cd;ef}gh&hunter2 next":                   "password: REDACTED next",
		`token=ab\hunter2 next`:                                "token=REDACTED next",
		`token: "cut off hunter2`:                              `token: "REDACTED`,
		"basic aHVudGVyMg==hunter2":                            "basic REDACTED",
		"X-Api-Key: hunter2":                                   "X-Api-Key: REDACTED",
	} {
		got := string(redact([]byte(text)))
		testutil.Assert(t, !strings.Contains(got, "hunter2") && strings.Contains(got, kept),
			"%q became %q, want %q kept", text, got, kept)
	}
	for _, text := range []string{
		`time="2026" level=info msg="CRI request" duration=3ms podSandboxID=4f6c rpc=RunPodSandbox`,
		"unix:///run/criadapter/criadapter.sock",
		"image=127.0.0.1:5000/test@sha256:aa", "http://127.0.0.1:4317",
	} {
		testutil.Equal(t, string(redact([]byte(text))), text, "%q became", text)
	}
}

func TestRedactJSON(t *testing.T) {
	got := string(redactJSON([]byte(`{"name":"net","plugins":[{"type":"x","etcd_password":"hunter2",
		"auth":{"a":"hunter2"},"mtu":1400,
		"server":"https://u:hunter2@etcd","kubernetes":{"k8s_auth_token":"hunter2","client-certificate-data":"hunter2"}}]}`)))
	testutil.Assert(t, !strings.Contains(got, "hunter2") && strings.Contains(got, `"mtu": 1400`) &&
		strings.Contains(got, `"type": "x"`), "got %s", got)
	if got := redactJSON([]byte(`{"password": "hunter2`)); bytes.Contains(got, []byte("hunter2")) {
		t.Errorf("got %s", got)
	}
}

func FuzzRedact(f *testing.F) {
	f.Add([]byte("password=x"))
	f.Add([]byte(`{"a":[{"token":1}]}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		redactJSON(text)
		once := redact(bytes.Clone(text))
		testutil.Assert(t, len(once) <= 20*len(text)+100, "%q grew to %q", text, once)
	})
}
