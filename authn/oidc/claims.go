package oidc

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/planekit/planekit/authn/user"
)

const (
	// leeway is the tolerance for a token that is not valid yet, as in Kubernetes.
	leeway = 5 * time.Minute
	// credentialIDKey is the key under which Kubernetes reports the jti of a token.
	credentialIDKey = "authentication.kubernetes.io/credential-id"
)

var (
	errIssuer    = errors.New("oidc: the token is another issuer's")
	errClaims    = errors.New("oidc: claims of the token are missing or malformed")
	errOver      = errors.New("oidc: the token is over")
	errEarly     = errors.New("oidc: the token does not hold yet")
	errAud       = errors.New("oidc: the token is for another audience")
	errParty     = errors.New("oidc: the token was given to another client")
	errElsewhere = errors.New("oidc: the groups are elsewhere (distributed claims), where nothing is read")
	errNameless  = errors.New("oidc: the user has no name")
	errNoEmail   = errors.New("oidc: the e-mail address is not verified")
)

// claims is a token's payload. Names are case-sensitive, unlike with encoding/json and a struct.
type claims map[string]json.RawMessage

func parseClaims(payload []byte) (claims, error) {
	var c claims
	if err := json.Unmarshal(payload, &c); err != nil || c == nil {
		return nil, errMalformed
	}
	return c, nil
}

// text returns a claim that is a string.
func (c claims) text(name string) (string, bool) {
	var value *string
	if json.Unmarshal(c[name], &value) != nil || value == nil {
		return "", false
	}
	return *value, true
}

// texts returns a claim that is a string or a list of strings.
func (c claims) texts(name string) ([]string, bool) {
	if one, ok := c.text(name); ok {
		return []string{one}, true
	}
	var values []*string
	if json.Unmarshal(c[name], &values) != nil {
		return nil, false
	}
	var out []string
	for _, v := range values {
		if v == nil {
			return nil, false
		}
		out = append(out, *v)
	}
	return out, true
}

const (
	// farthest is the largest time in seconds since 1970; later ones count as it. It is exact in a float64
	// and far below the limit of time.Time.
	farthest = 1 << 50
	// beyond is more than any number of seconds that kube-apiserver takes for a time.
	beyond = 9e18
)

// moment returns a claim that is a number of seconds since 1970 (RFC 7519, section 2), or that number as a string.
func (c claims) moment(name string) (time.Time, bool) {
	var number json.Number
	if json.Unmarshal(c[name], &number) != nil {
		return time.Time{}, false
	}
	seconds, err := number.Float64()
	if err != nil || math.Abs(seconds) > beyond {
		return time.Time{}, false
	}
	return time.Unix(int64(max(-farthest, min(seconds, farthest))), 0), true
}

// wellFormed checks the claims that every token may have, and that the groups are not in another document than the token
// (OpenID Connect Core, section 5.6.2).
func (c claims) wellFormed(groups string) error {
	for _, name := range []string{"sub", "nonce", "at_hash"} {
		var text *string
		if value, told := c[name]; told && json.Unmarshal(value, &text) != nil {
			return errClaims
		}
	}
	var issued json.Number
	if value, told := c["iat"]; told && (json.Unmarshal(value, &issued) != nil || issued == "") {
		return errClaims
	}
	var names map[string]string
	var sources map[string]struct {
		Endpoint    string `json:"endpoint"`
		AccessToken string `json:"access_token"`
	}
	for name, to := range map[string]any{"_claim_names": &names, "_claim_sources": &sources} {
		if value, told := c[name]; told && json.Unmarshal(value, to) != nil {
			return errClaims
		}
	}
	for _, source := range names {
		if _, told := sources[source]; !told {
			return errClaims
		}
	}
	if _, here := c[groups]; !here && groups != "" && sources[names[groups]].Endpoint != "" {
		return errElsewhere
	}
	return nil
}

// holds checks the claims of a token with a valid signature.
func (i *Issuer) holds(c claims, now time.Time) error {
	if name, ok := c.text("iss"); !ok || sameIssuer(name) != i.URL {
		return errIssuer
	}
	audiences, ok := c.texts("aud")
	if !ok || !slices.ContainsFunc(audiences, func(a string) bool { return slices.Contains(i.ClientIDs, a) }) {
		return errAud
	}
	if _, told := c["azp"]; told && len(i.Parties) > 0 {
		if party, ok := c.text("azp"); !ok || !slices.Contains(i.Parties, party) {
			return errParty
		}
	}
	if err := c.wellFormed(i.GroupsClaim); err != nil {
		return err
	}
	end, ok := c.moment("exp")
	if !ok {
		return errClaims
	}
	if end.Before(now) {
		return errOver
	}
	if _, told := c["nbf"]; told {
		from, ok := c.moment("nbf")
		if !ok {
			return errClaims
		}
		if now.Add(leeway).Before(from) {
			return errEarly
		}
	}
	return i.required(c)
}

func (i *Issuer) required(c claims) error {
	for name, want := range i.RequiredClaims {
		if got, ok := c.text(name); !ok || got != want {
			return fmt.Errorf("oidc: the required claim %q is missing or has another value", name)
		}
	}
	return nil
}

// refined returns the user of the claims after Refine.
func (i *Issuer) refined(ctx context.Context, c claims) (*user.Info, error) {
	u, err := i.user(c)
	if err != nil || i.Refine == nil {
		return u, err
	}
	if err := i.Refine(ctx, c, u); err != nil {
		return nil, err
	}
	if u.Name == "" {
		return nil, errNameless
	}
	return u, nil
}

// name returns the user's name with its prefix.
func (i *Issuer) name(c claims) (string, error) {
	if i.UsernameClaim == "" {
		return "", nil
	}
	name, ok := c.text(i.UsernameClaim)
	if !ok || name == "" {
		return "", fmt.Errorf("oidc: the claim %q, the user's name, is missing or no text", i.UsernameClaim)
	}
	if i.UsernameClaim == "email" {
		if err := emailVerified(c); err != nil {
			return "", err
		}
	}
	return i.UsernamePrefix + name, nil
}

// user returns the user of the claims before Refine.
func (i *Issuer) user(c claims) (*user.Info, error) {
	name, err := i.name(c)
	if err != nil {
		return nil, err
	}
	u := &user.Info{Name: name}
	var ok bool
	if i.UIDClaim != "" {
		if u.UID, ok = c.text(i.UIDClaim); !ok {
			return nil, fmt.Errorf("oidc: the claim %q, the user's UID, is missing or no text", i.UIDClaim)
		}
	}
	if _, told := c[i.GroupsClaim]; told && i.GroupsClaim != "" {
		groups, ok := c.texts(i.GroupsClaim)
		if !ok {
			return nil, fmt.Errorf("oidc: the claim %q, the user's groups, is no list of texts", i.GroupsClaim)
		}
		for _, g := range groups {
			u.Groups = append(u.Groups, i.GroupsPrefix+g)
		}
	}
	if u.Extra, err = i.extra(c); err != nil {
		return nil, err
	}
	return u, nil
}

// emailVerified fails if the address is marked as unverified. Without a mark it counts as verified,
// as in Kubernetes.
func emailVerified(c claims) error {
	value, told := c["email_verified"]
	if !told {
		return nil
	}
	var verified bool
	if json.Unmarshal(value, &verified) != nil || !verified {
		return errNoEmail
	}
	return nil
}

func (i *Issuer) extra(c claims) (map[string][]string, error) {
	extra := map[string][]string{}
	for key, name := range i.ExtraClaims {
		if _, told := c[name]; !told {
			continue
		}
		values, ok := c.texts(name)
		if !ok {
			return nil, fmt.Errorf("oidc: the claim %q is no list of texts", name)
		}
		if len(values) > 0 {
			extra[key] = values
		}
	}
	if id, ok := c.text("jti"); ok && id != "" {
		extra[credentialIDKey] = []string{"JTI=" + id}
	}
	if len(extra) == 0 {
		return nil, nil
	}
	return extra, nil
}
