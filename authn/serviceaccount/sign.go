package serviceaccount

import (
	"cmp"
	"crypto"
	"crypto/ecdsa"
	"crypto/rand"
	"crypto/rsa"
	"errors"
	"fmt"
	"time"

	"github.com/golang-jwt/jwt/v5"
)

// A Signer signs tokens. It is safe for concurrent use.
type Signer struct {
	issuer string
	id     string
	method jwt.SigningMethod
	key    crypto.Signer
}

// NewSigner returns a signer for issuer, which should be an https URL. key must be an
// *ecdsa.PrivateKey or an *rsa.PrivateKey.
func NewSigner(issuer string, key crypto.Signer) (*Signer, error) {
	switch key.(type) {
	case *ecdsa.PrivateKey, *rsa.PrivateKey:
	default:
		return nil, fmt.Errorf("service account signer: a %T is not supported", key)
	}
	if issuer == "" {
		return nil, errors.New("service account signer: no issuer")
	}
	public, err := newPublicKey(key.Public())
	if err != nil {
		return nil, fmt.Errorf("service account signer: %w", err)
	}
	return &Signer{issuer: issuer, id: public.id, method: jwt.GetSigningMethod(public.algorithm), key: key}, nil
}

// Sign returns a token for g that is valid from now on.
func (s *Signer) Sign(g Grant) (string, error) {
	switch {
	case g.Namespace == "" || g.Account.Name == "" || g.Account.UID == "":
		return "", errors.New("sign service account token: the account is not whole")
	case len(g.Audiences) == 0:
		return "", errors.New("sign service account token: no audience")
	case g.Life < time.Second:
		return "", errors.New("sign service account token: no life")
	}
	now := time.Now()
	c := &claims{
		RegisteredClaims: jwt.RegisteredClaims{
			Issuer:    s.issuer,
			Subject:   Username(g.Namespace, g.Account.Name),
			Audience:  g.Audiences,
			ExpiresAt: jwt.NewNumericDate(now.Add(g.Life)),
			NotBefore: jwt.NewNumericDate(now),
			IssuedAt:  jwt.NewNumericDate(now),
			ID:        cmp.Or(g.ID, rand.Text()),
		},
		Kubernetes: private{Namespace: g.Namespace, Account: g.Account, Pod: g.Pod, Secret: g.Secret, Node: g.Node},
	}
	if g.WarnAfter > 0 {
		c.Kubernetes.WarnAfter = jwt.NewNumericDate(now.Add(g.WarnAfter))
	}
	return s.signed(c)
}

func (s *Signer) signed(c jwt.Claims) (string, error) {
	token := jwt.NewWithClaims(s.method, c)
	token.Header["kid"] = s.id
	delete(token.Header, "typ") // as in Kubernetes
	signed, err := token.SignedString(s.key)
	if err != nil {
		return "", fmt.Errorf("sign service account token: %w", err)
	}
	return signed, nil
}
