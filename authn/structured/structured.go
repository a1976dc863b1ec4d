// Package structured reads kube-apiserver's structured authentication configuration: several OpenID
// Connect issuers, CEL expressions that map claims to users, and the paths that need no credentials
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
// [Parse] returns the issuers of a configuration for package oidc without following a file.
//
// A configuration is read strictly: unknown and repeated fields are errors, and so is everything
// that kube-apiserver refuses, with the same messages and field paths. Expressions are compiled
// here and have kube-apiserver's cost limits. Errors never contain a part of the token, except in
// the messages of rules, which the configuration defines.
//
// Users are the same as in kube-apiserver, with two exceptions. As in package oidc, a claim that is
// mapped by its name must not be null, and a name must not be empty. A list returned by a CEL
// function, such as split, counts as a list, which kube-apiserver ignores.
//
// This package is separate from package oidc so that only programs that use expressions link CEL.
// Egress selectors are refused, because they are not supported.
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

// Settings is the result of reading a configuration.
type Settings struct {
	// Issuers are the trusted issuers, for oidc.New; there may be none.
	Issuers []oidc.Issuer
	// Anonymous is nil if the configuration does not contain it.
	Anonymous *Anonymous
}

// Anonymous defines which requests need no credentials.
type Anonymous struct {
	Enabled bool
	// Paths, if not empty, are the only such paths.
	Paths []string
}

const group = "apiserver.config.k8s.io/"

// versions lists the API versions, which have the same fields.
var versions = []string{group + "v1", group + "v1beta1", group + "v1alpha1"}

// Parse reads an AuthenticationConfiguration in YAML or JSON. It must not contain the issuers in
// disallowed, such as that of service accounts, which are trusted in another way.
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
