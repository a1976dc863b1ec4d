package serviceaccount

import (
	"context"
	"crypto/subtle"
	"errors"
	"fmt"
	"time"

	"github.com/golang-jwt/jwt/v5"
)

// LegacyIssuer is the issuer of tokens that are kept in secrets.
const LegacyIssuer = "kubernetes/serviceaccount"

// A Held is the state of an existing secret that contains a token.
type Held struct {
	// Token is the token in the secret. It is compared and never kept.
	Token []byte
	// Deleted means that the secret is being deleted.
	Deleted bool
	// Invalid means that the token must not be used any more. Kubernetes marks it with the label
	// kubernetes.io/legacy-token-invalid-since.
	Invalid bool
}

// A HeldLookup returns the secret that contains a token, and false if it does not exist. If a cache
// has no secret, or one without a token, it may be stale, and the HeldLookup should read from the
// store. It must be safe for concurrent use.
type HeldLookup func(ctx context.Context, namespace, name string) (Held, bool, error)

// legacyClaims is the payload of a token that is kept in a secret.
type legacyClaims struct {
	jwt.RegisteredClaims
	Namespace  string `json:"kubernetes.io/serviceaccount/namespace"`
	SecretName string `json:"kubernetes.io/serviceaccount/secret.name"`
	Account    string `json:"kubernetes.io/serviceaccount/service-account.name"`
	AccountUID string `json:"kubernetes.io/serviceaccount/service-account.uid"`
}

// SignLegacy returns a token for the account that is valid while the secret contains it and the
// account exists. It does not expire and is meant only for the API server.
func (s *Signer) SignLegacy(namespace string, account Ref, secret string) (string, error) {
	if namespace == "" || account.Name == "" || account.UID == "" || secret == "" {
		return "", errors.New("sign service account token: the account or the secret is not whole")
	}
	return s.signed(&legacyClaims{
		RegisteredClaims: jwt.RegisteredClaims{Issuer: LegacyIssuer, Subject: Username(namespace, account.Name)},
		Namespace:        namespace, SecretName: secret, Account: account.Name, AccountUID: account.UID,
	})
}

// verifyLegacy verifies the signature of a token that is kept in a secret, and reads it.
func (a *Authenticator) verifyLegacy(token string, current *keys) (*verified, error) {
	var c legacyClaims
	if _, err := a.parser.ParseWithClaims(token, &c, current.forToken); err != nil {
		return nil, errSignature
	}
	if c.Issuer != LegacyIssuer || c.Namespace == "" || c.SecretName == "" || c.Account == "" || c.AccountUID == "" ||
		c.Subject != Username(c.Namespace, c.Account) {
		return nil, errClaims
	}
	v := &verified{keys: current, legacy: c.SecretName}
	v.claims.RegisteredClaims = c.RegisteredClaims
	v.claims.ID = "" // it is not reported
	v.claims.Audience = a.config.Audiences
	v.claims.Kubernetes = private{Namespace: c.Namespace, Account: Ref{Name: c.Account, UID: c.AccountUID}}
	v.user = v.claims.info()
	return v, nil
}

// held checks that the secret contains the token and that the account exists.
func (a *Authenticator) held(ctx context.Context, v *verified, token string, now time.Time) error {
	k := &v.claims.Kubernetes
	secret, found, err := a.config.Legacy(ctx, k.Namespace, v.legacy)
	switch {
	case err != nil:
		return fmt.Errorf("service account token: look up secret %s: %w", join(k.Namespace, v.legacy), err)
	case !found || secret.Deleted:
		return fmt.Errorf("service account token: secret %s is gone", join(k.Namespace, v.legacy))
	case subtle.ConstantTimeCompare(secret.Token, []byte(token)) == 0:
		return fmt.Errorf("service account token: secret %s holds another", join(k.Namespace, v.legacy))
	case secret.Invalid:
		return fmt.Errorf("service account token: that of secret %s has been marked invalid", join(k.Namespace, v.legacy))
	}
	return alive(ctx, "service account", a.config.Accounts, k.Namespace, &k.Account, now)
}
