package oidc

import (
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
)

// algorithms lists the algorithms of kube-apiserver, which exclude shared secrets and "none".
var algorithms = []string{"RS256", "RS384", "RS512", "ES256", "ES384", "ES512", "PS256", "PS384", "PS512"}

// Algorithms returns the algorithms that tokens may be signed with.
func Algorithms() []string { return slices.Clone(algorithms) }

// complete returns copies of issuers with defaults for empty fields.
func complete(issuers []Issuer) ([]Issuer, error) {
	if len(issuers) == 0 {
		return nil, errors.New("oidc: no issuers")
	}
	out := make([]Issuer, 0, len(issuers))
	seen := map[string]bool{}
	for n, i := range issuers {
		if err := i.check(); err != nil {
			return nil, fmt.Errorf("oidc: issuer %d: %w", n+1, err)
		}
		if seen[i.URL] {
			return nil, fmt.Errorf("oidc: issuer %q is given twice", i.URL)
		}
		seen[i.URL] = true
		out = append(out, i.completed())
	}
	return out, nil
}

func (i *Issuer) check() error {
	if err := checkURL(i.URL); err != nil {
		return err
	}
	if i.DiscoveryURL != "" {
		if err := checkURL(i.DiscoveryURL); err != nil {
			return fmt.Errorf("discovery: %w", err)
		}
	}
	if len(i.ClientIDs) == 0 || slices.Contains(i.ClientIDs, "") {
		return errors.New("client IDs must be set")
	}
	for _, a := range i.Algorithms {
		if !slices.Contains(algorithms, a) {
			return fmt.Errorf("signing algorithm %q is not one of %s", a, strings.Join(algorithms, ", "))
		}
	}
	for key, claim := range i.ExtraClaims {
		if key == "" || claim == "" || key != strings.ToLower(key) {
			return fmt.Errorf("extra %q: key and claim must be set, the key in lower case", key)
		}
	}
	if _, ok := i.RequiredClaims[""]; ok {
		return errors.New("a required claim has no name")
	}
	if i.Roots != nil && i.Transport != nil {
		return errors.New("roots and a transport exclude each other")
	}
	return nil
}

// checkURL does not quote an invalid URL, because it may contain a password.
func checkURL(text string) error {
	u, err := url.Parse(text)
	switch {
	case err != nil:
		return errors.New("the URL cannot be read")
	case u.Scheme != "https" || u.Host == "":
		return errors.New("the URL must be https")
	case u.User != nil:
		return errors.New("the URL must not contain a user")
	case u.RawQuery != "" || u.ForceQuery:
		return errors.New("the URL must not contain a query")
	case u.Fragment != "":
		return errors.New("the URL must not contain a fragment")
	}
	return nil
}

func (i Issuer) completed() Issuer {
	i.ClientIDs, i.Parties = slices.Clone(i.ClientIDs), slices.Clone(i.Parties)
	i.ExtraClaims, i.RequiredClaims = maps.Clone(i.ExtraClaims), maps.Clone(i.RequiredClaims)
	if i.Algorithms = slices.Clone(i.Algorithms); len(i.Algorithms) == 0 {
		i.Algorithms = []string{"RS256"}
	}
	if i.UsernameClaim == "" && i.Refine == nil {
		i.UsernameClaim = "sub"
	}
	switch {
	case i.Refine != nil: // Refine would have to know
	case i.UsernamePrefix == "-":
		i.UsernamePrefix = ""
	case i.UsernamePrefix == "" && i.UsernameClaim != "email":
		i.UsernamePrefix = i.URL + "#"
	}
	if i.DiscoveryURL == "" {
		i.DiscoveryURL = strings.TrimSuffix(i.URL, "/") + "/.well-known/openid-configuration"
	}
	return i
}
