// Package structured reads kube-apiserver's structured authentication
// configuration: several OpenID Connect issuers, with users made of claims by
// expressions in CEL, and for which paths nobody needs credentials
// (https://kubernetes.io/docs/reference/access-authn-authz/authentication/#using-authentication-configuration).
//
//	people, err := structured.New(structured.Config{
//		Read:       func() ([]byte, error) { return os.ReadFile(file) },
//		Disallowed: []string{"https://kubernetes.default.svc"},
//	})
//	go people.Run(ctx)
//	chain := authn.Chain{certificates, people}
//	if a := people.Anonymous(); a != nil && a.Enabled {
//		chain = append(chain, anonymous.Authenticator{Paths: a.Paths})
//	}
//
// [Parse] alone has the issuers for an authenticator of package oidc that does not
// follow a file.
//
// A configuration is read strictly: a field that is not known, or is there twice,
// is an error, and so is everything that kube-apiserver refuses, in its words and
// with the path of the field. Expressions are compiled here and cost no more than
// kube-apiserver lets them. What a token says is never in an error, but for
// messages of rules, which are the configuration's own.
//
// Users are those that kube-apiserver makes, but that, as in package oidc, a claim
// that is mapped by its name must not be null, nor a name empty. A list that a
// function of CEL returns, as split does, counts as one, which kube-apiserver
// forgets.
//
// It is apart from package oidc so that only those who want expressions link CEL.
// Egress selectors are refused: there is nothing to select.
package structured

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/planekit/planekit/authn/oidc"
	"sigs.k8s.io/json"
	"sigs.k8s.io/yaml"
)

// Settings are what a configuration says.
type Settings struct {
	// Issuers are whose tokens are believed; there may be none. They are for
	// oidc.New, as they are.
	Issuers []oidc.Issuer
	// Anonymous is nil where the configuration says nothing of it.
	Anonymous *Anonymous
}

// Anonymous says which requests need no credentials.
type Anonymous struct {
	Enabled bool
	// Paths, when not empty, are the only ones.
	Paths []string
}

const group = "apiserver.config.k8s.io/"

// versions have the same fields.
var versions = []string{group + "v1", group + "v1beta1", group + "v1alpha1"}

// Parse reads an AuthenticationConfiguration, as YAML or JSON. No issuer may be
// one of disallowed: those are believed in another way, as that of service
// accounts.
func Parse(data []byte, disallowed ...string) (Settings, error) {
	c, err := decode(data)
	if err != nil {
		return Settings{}, err
	}
	maker, err := newCompiler()
	if err != nil {
		return Settings{}, err
	}
	out, problems := maker.build(c, disallowed)
	if len(problems) > 0 {
		return Settings{}, problems.ToAggregate()
	}
	return out, nil
}

// decode reads data strictly.
func decode(data []byte) (*configuration, error) {
	if len(data) == 0 {
		return nil, errors.New("empty config data")
	}
	text, err := yaml.YAMLToJSONStrict(data)
	if err != nil {
		return nil, err
	}
	var named struct {
		APIVersion string `json:"apiVersion"`
		Kind       string `json:"kind"`
	}
	if err := json.UnmarshalCaseSensitivePreserveInts(text, &named); err != nil {
		return nil, err
	}
	if !slices.Contains(versions, named.APIVersion) || named.Kind != "AuthenticationConfiguration" {
		return nil, fmt.Errorf("no AuthenticationConfiguration of %s: apiVersion %q, kind %q", strings.Join(versions, ", "), named.APIVersion, named.Kind)
	}
	c := &configuration{}
	wrong, err := json.UnmarshalStrict(text, c)
	if err != nil {
		return nil, err
	}
	if len(wrong) > 0 {
		return nil, fmt.Errorf("strict decoding error: %w", errors.Join(wrong...))
	}
	return c, nil
}
