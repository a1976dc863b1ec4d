package kubeflags_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"github.com/planekit/planekit/authn/user"
	"github.com/planekit/planekit/authz"
	"github.com/planekit/planekit/plane"
	"github.com/planekit/planekit/plane/authorizers"
	"github.com/planekit/planekit/plane/kubeflags"
	"github.com/planekit/planekit/plane/stack"
)

// apply returns the configuration of a command line.
func apply(t *testing.T, arguments ...string) (config plane.Config, err error) {
	t.Helper()
	flags := pflag.NewFlagSet("test", pflag.ContinueOnError)
	options := kubeflags.Add(flags)
	if err := flags.Parse(arguments); err != nil {
		t.Fatal(err)
	}
	if err := options.Check(); err != nil {
		t.Fatal(err)
	}
	s := stack.New()
	t.Cleanup(func() {
		if err := s.Stop(); err != nil {
			t.Error(err)
		}
	})
	err = options.Apply(&config, s)
	return config, err
}

// TestFiles checks that files without the expected content are errors that name the flag, of Apply
// and, for authentication, of plane.New.
func TestFiles(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	for flag, more := range map[string][]string{
		"--client-ca-file":                           nil,
		"--requestheader-client-ca-file":             {"--requestheader-allowed-names=proxy"},
		"--token-auth-file":                          nil,
		"--basic-auth-file":                          nil,
		"--authentication-config":                    nil,
		"--authentication-token-webhook-config-file": nil,
		"--oidc-ca-file":                             {"--oidc-issuer-url=https://issuer.example", "--oidc-client-id=planekit"},
		"--authorization-policy-file":                {"--authorization-mode=ABAC"},
		"--authorization-webhook-config-file":        {"--authorization-mode=Webhook"},
		"--admission-control-config-file":            nil,
		"--audit-policy-file":                        {"--audit-log-path=-"},
	} {
		for _, path := range []string{file, filepath.Join(t.TempDir(), "missing")} {
			config, err := apply(t, append(more, flag+"="+path)...)
			if err == nil && config.NewAuthenticator != nil {
				_, err = plane.New(config)
			}
			if err == nil || !strings.Contains(err.Error(), flag) || !strings.Contains(err.Error(), path) {
				t.Errorf("with %s=%s: %v, want an error that names the flag and the file", flag, path, err)
			}
		}
	}
}

// TestPolicyFile checks that the authorizer of the mode ABAC decides by its file.
func TestPolicyFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "policies")
	policy := `{"apiVersion":"abac.authorization.kubernetes.io/v1beta1","kind":"Policy","spec":{"user":"jane","namespace":"*","resource":"pods","readonly":true}}`
	if err := os.WriteFile(file, []byte(policy), 0o600); err != nil {
		t.Fatal(err)
	}
	config, err := apply(t, "--authorization-mode=Node,ABAC", "--authorization-policy-file="+file)
	if err != nil {
		t.Fatal(err)
	}
	for verb, want := range map[string]authz.Decision{"get": authz.Allow, "delete": authz.NoOpinion} {
		got, _, err := config.Authorizers[authorizers.ABAC].Authorize(t.Context(), authz.Attributes{
			User: &user.Info{Name: "jane"}, Verb: verb, Version: "v1", Resource: "pods", Namespace: "default",
		})
		if got != want || err != nil {
			t.Errorf("jane %ss pods: %v, want %v (%v)", verb, got, want, err)
		}
	}
}
