package kubeletconfig

import (
	"crypto/tls"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
)

// programText has a value for each field on which a program acts.
const programText = head + `
staticPodPath: manifests
staticPodURL: https://example.org/pods
staticPodURLHeader: {authorization: [a, b]}
fileCheckFrequency: 5s
httpCheckFrequency: 6s
tlsMinVersion: VersionTLS13
tlsCipherSuites: [TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305, TLS_RSA_WITH_AES_128_CBC_SHA]
tlsCurvePreferences: [29, 23]
enableServer: true
enableDebuggingHandlers: false
address: 127.0.0.1
port: 1234
tlsCertFile: /etc/tls.crt
tlsPrivateKeyFile: tls.key
authentication: {x509: {clientCAFile: ca.crt}, webhook: {enabled: false}, anonymous: {enabled: true}}
authorization: {mode: AlwaysAllow}
readOnlyPort: 10255
maxOpenFiles: 5000
`

func TestProgram(t *testing.T) {
	f := mustDecode(t, programText)
	want := Program{
		StaticPodPath: "/etc/kubelet/manifests", StaticPodURL: "https://example.org/pods", StaticPodHeader: http.Header{"Authorization": {"a", "b"}},
		FileCheck: 5 * time.Second, URLCheck: 6 * time.Second,
		MinVersion: tls.VersionTLS13, CipherSuites: []uint16{tls.TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256, tls.TLS_RSA_WITH_AES_128_CBC_SHA},
		CurvePreferences: []tls.CurveID{tls.X25519, tls.CurveP256},
		EnableServer:     true, DebuggingHandlers: false, Address: "127.0.0.1", Port: 1234, CertFile: "/etc/tls.crt", KeyFile: "/etc/kubelet/tls.key", ClientCAFile: "/etc/kubelet/ca.crt",
		Anonymous: true, AuthorizationMode: "AlwaysAllow", ReadOnlyPort: 10255, MaxOpenFiles: 5000,
	}
	got := f.Program("/etc/kubelet")
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got\n%+v\nwant\n%+v", got, want)
	}
	var config tls.Config
	got.ApplyTLS(&config)
	if config.MinVersion != tls.VersionTLS13 || len(config.CipherSuites) != 2 || len(config.CurvePreferences) != 2 {
		t.Errorf("ApplyTLS sets MinVersion %#x, CipherSuites %v, CurvePreferences %v, want %#x and two of each",
			config.MinVersion, config.CipherSuites, config.CurvePreferences, tls.VersionTLS13)
	}
	// A field is named unless the program acts on its part.
	said := func(parts ...Part) (fields []string) {
		for _, w := range f.Warnings(parts...) {
			fields = append(fields, strings.Fields(w)[0])
		}
		return fields
	}
	static := []string{"staticPodPath", "staticPodURL", "staticPodURLHeader", "fileCheckFrequency", "httpCheckFrequency"}
	settings := []string{"tlsMinVersion", "tlsCipherSuites", "tlsCurvePreferences"}
	debugging := []string{"enableDebuggingHandlers"}
	serving := []string{"address", "port", "readOnlyPort", "maxOpenFiles", "tlsCertFile", "tlsPrivateKeyFile", "authentication", "authorization"}
	others := []string{"readOnlyPort", "maxOpenFiles"}
	for _, test := range []struct{ got, want []string }{
		{said(), slices.Concat(static, settings, debugging, serving)},
		{said(StaticPods), slices.Concat(settings, debugging, serving)},
		{said(StaticPods, Serving, Debugging), slices.Concat(settings, others)},
		{said(StaticPods, Serving, TLS, Debugging, ReadOnly, Process), []string{"tlsCipherSuites", "tlsCipherSuites"}}, // one is insecure, none has an effect
	} {
		if !slices.Equal(test.got, test.want) {
			t.Errorf("warnings about %v, want %v", test.got, test.want)
		}
	}
	if warnings := mustDecode(t, head+"tlsMinVersion: VersionTLS11").Warnings(TLS); len(warnings) != 1 || !strings.Contains(warnings[0], "TLS 1.2 and newer") {
		t.Error(warnings)
	}
}

// TestProgramDefaults: a file without these fields, and one with empty ones, have Kubernetes' defaults.
func TestProgramDefaults(t *testing.T) {
	want := defaultProgram()
	want.StaticPodHeader = http.Header{}
	for _, text := range []string{"", "fileCheckFrequency: 0s\nreadOnlyPort: 0\nmaxOpenFiles: 0\naddress: ''\nport: 0\ntlsMinVersion: ''\nauthentication: {}\nauthorization: {}\nstaticPodPath: ''\n"} {
		if got := mustDecode(t, head+text).Program("/etc"); !reflect.DeepEqual(got, want) {
			t.Errorf("%q: got\n%+v\nwant\n%+v", text, got, want)
		}
	}
}

func TestProgramRefused(t *testing.T) {
	for text, want := range map[string]string{
		"fileCheckFrequency: -1s":            "fileCheckFrequency: -1s must not be negative",
		"httpCheckFrequency: -1s":            "httpCheckFrequency: -1s must not be negative",
		"tlsMinVersion: '1.2'":               `tlsMinVersion: unknown tls version "1.2"`,
		"tlsCipherSuites: [TLS_NULL]":        "tlsCipherSuites: cipher suite TLS_NULL is not supported or doesn't exist",
		"tlsCurvePreferences: [0]":           "tlsCurvePreferences: curve preference 0 is out of range (must be 1-65535)",
		"tlsCurvePreferences: [23, 23]":      "tlsCurvePreferences: duplicate curve preference 23",
		"tlsCurvePreferences: [7]":           "tlsCurvePreferences: curve preference 7 is not supported by the current Go version",
		"port: 65536":                        "port (--port) 65536 must be between 1 and 65535, inclusive",
		"authorization: {mode: ABAC}":        "unknown authorization mode ABAC",
		"authentication: {x509: {ca: file}}": `unknown field "authentication.x509.ca"`,
	} {
		if _, err := Decode([]byte(head + text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}
