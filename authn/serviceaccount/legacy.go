package serviceaccount

import (
	"context"
	"crypto/subtle"
	"errors"
	"fmt"
	"time"

	"github.com/golang-jwt/jwt/v5"
)

// LegacyIssuer is in whose name tokens are signed that are kept in secrets.
const LegacyIssuer = "kubernetes/serviceaccount"

// A Held is what is known of a secret that lives and holds a token.
type Held struct {
	// Token is what the secret holds now. It is compared, and never kept.
	Token []byte
	// Deleted tells that the secret has been deleted and is still there.
	Deleted bool
	// Invalid tells that the token is not to be used any more, which Kubernetes says
	// with the label kubernetes.io/legacy-token-invalid-since.
	Invalid bool
}

// A HeldLookup finds the secret that holds a token, and false where there is none.
// A local copy that has none, or one without a token, may be old and should look
// again where secrets are stored. Must be safe for concurrent use.
type HeldLookup func(ctx context.Context, namespace, name string) (Held, bool, error)

// legacyClaims are the payload of a token that is kept in a secret.
type legacyClaims struct {
	jwt.RegisteredClaims
	Namespace  string `json:"kubernetes.io/serviceaccount/namespace"`
	SecretName string `json:"kubernetes.io/serviceaccount/secret.name"`
	Account    string `json:"kubernetes.io/serviceaccount/service-account.name"`
	AccountUID string `json:"kubernetes.io/serviceaccount/service-account.uid"`
}

// SignLegacy returns a token for the account that holds as long as the secret has
// it and the account lives. It has no end of its own, and is meant for the API
// server alone.
func (s *Signer) SignLegacy(namespace string, account Ref, secret string) (string, error) {
	if namespace == "" || account.Name == "" || account.UID == "" || secret == "" {
		return "", errors.New("sign service account token: the account or the secret is not whole")
	}
	return s.signed(&legacyClaims{
		RegisteredClaims: jwt.RegisteredClaims{Issuer: LegacyIssuer, Subject: Username(namespace, account.Name)},
		Namespace:        namespace, SecretName: secret, Account: account.Name, AccountUID: account.UID,
	})
}

// verifyLegacy reads a token that is kept in a secret, whose signature is good.
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
	v.claims.ID = "" // nothing is told of it
	v.claims.Audience = a.config.Audiences
	v.claims.Kubernetes = private{Namespace: c.Namespace, Account: Ref{Name: c.Account, UID: c.AccountUID}}
	v.user = v.claims.info()
	return v, nil
}

// held checks that the secret has the token, and that the account lives.
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
