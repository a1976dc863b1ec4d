package oidc

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/golang-jwt/jwt/v5"
	"github.com/planekit/planekit/authn"
)

// maxToken is larger than a token with some thousand groups, in bytes.
const maxToken = 64 << 10

// maxTried bounds the keys that are tried for one token, which names none, or one of several with the
// same name. The largest RSA keys take 5 ms each.
const maxTried = 16

// Reasons to refuse a token. They do not quote it.
var (
	errNotYet    = fmt.Errorf("oidc: the keys of the issuer have not been found yet: %w", authn.ErrUnchecked)
	errMalformed = errors.New("oidc: the token is malformed")
	errAlgorithm = errors.New("oidc: the token is not signed with an algorithm that is allowed")
	errCritical  = errors.New("oidc: the token demands what is not understood")
	errKey       = errors.New("oidc: the token is not signed with a known key")
	errMaybeKey  = fmt.Errorf("%w, and the issuer cannot be asked again now: %w", errKey, authn.ErrUnchecked)
	errSignature = errors.New("oidc: the signature is wrong")
)

// Google's tokens may name the issuer without the scheme
// (https://openid.net/specs/openid-connect-core-1_0.html#GoogleIss).
const googleBare, google = "accounts.google.com", "https://accounts.google.com"

// sameIssuer returns the normalized name of an issuer.
func sameIssuer(name string) string {
	if name == googleBare {
		return google
	}
	return name
}

// decoder accepts a single encoding of each value, so that a token cannot be altered and stay
// valid.
var decoder = base64.RawURLEncoding.Strict()

// issuerOf returns the unverified issuer of a token, or "".
func issuerOf(token string) string {
	if len(token) > maxToken || strings.Count(token, ".") != 2 {
		return ""
	}
	_, rest, _ := strings.Cut(token, ".")
	payload, _, _ := strings.Cut(rest, ".")
	data, err := decoder.DecodeString(payload)
	if err != nil {
		return ""
	}
	var claimed struct {
		Issuer string `json:"iss"`
	}
	if json.Unmarshal(data, &claimed) != nil {
		return ""
	}
	return sameIssuer(claimed.Issuer)
}

// A signed is a parsed token whose signature has not been verified.
type signed struct {
	algorithm string
	// kid names the key; empty means any.
	kid       string
	text      string // what was signed
	signature []byte
	claims    claims
}

// parse parses a token, which must use one of the allowed algorithms.
func parse(token string, allowed []string) (*signed, error) {
	parts := strings.Split(token, ".")
	if len(token) > maxToken || len(parts) != 3 || strings.ContainsAny(token, "\r\n") { // the decoder would ignore newlines
		return nil, errMalformed
	}
	var decoded [3][]byte
	for i, part := range parts {
		var err error
		if decoded[i], err = decoder.DecodeString(part); err != nil {
			return nil, errMalformed
		}
	}
	var header map[string]json.RawMessage
	if err := json.Unmarshal(decoded[0], &header); err != nil || hasNameTwice(decoded[0]) { // RFC 7515, section 4
		return nil, errMalformed
	}
	s := &signed{text: parts[0] + "." + parts[1], signature: decoded[2]}
	h := claims(header)
	var ok bool
	if s.algorithm, ok = h.text("alg"); !ok || !slices.Contains(allowed, s.algorithm) {
		return nil, errAlgorithm
	}
	if _, ok := header["crit"]; ok { // RFC 7515, section 4.1.11
		return nil, errCritical
	}
	if b64, ok := header["b64"]; ok && string(b64) != "true" { // RFC 7797, where the payload is no base64
		return nil, errCritical
	}
	if _, named := header["kid"]; named {
		if s.kid, ok = h.text("kid"); !ok {
			return nil, errMalformed
		}
	}
	var err error
	if s.claims, err = parseClaims(decoded[1]); err != nil {
		return nil, errMalformed
	}
	return s, nil
}

// hasNameTwice reports whether an object, which is valid JSON, has two fields of a name.
func hasNameTwice(object []byte) bool {
	d := json.NewDecoder(bytes.NewReader(object))
	seen := map[json.Token]bool{}
	var value json.RawMessage
	for _, err := d.Token(); err == nil && d.More(); err = d.Decode(&value) {
		name, _ := d.Token()
		if seen[name] {
			return true
		}
		seen[name] = true
	}
	return false
}

// verify returns the claims of a token that one of the keys has signed. errKey means that a key of
// a newer set might have signed it.
func (s *signed) verify(keys []key) (claims, error) {
	method, result, tried := jwt.GetSigningMethod(s.algorithm), errKey, 0
	for _, k := range keys {
		if s.kid != "" && s.kid != k.id || !k.fits(s.algorithm) {
			continue
		}
		if tried++; tried > maxTried {
			return nil, errSignature
		}
		if method.Verify(s.text, s.signature, k.public) == nil {
			return s.claims, nil
		}
		if s.kid != "" {
			result = errSignature
		}
	}
	return nil, result
}

// verify returns the claims of a token with a valid signature. If no known key fits, it fetches the
// keys.
func (p *provider) verify(ctx context.Context, token string) (claims, error) {
	s, err := parse(token, p.issuer.Algorithms)
	if err != nil {
		return nil, err
	}
	known := p.known()
	if known == nil {
		return nil, errNotYet
	}
	c, err := s.verify(known.list)
	if !errors.Is(err, errKey) {
		return c, err
	}
	if fresh := p.fresher(ctx, known); fresh != nil {
		return s.verify(fresh.list)
	}
	return nil, errMaybeKey
}
