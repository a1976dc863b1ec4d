// Package serviceaccount signs and verifies the tokens with which programs in pods authenticate:
// Kubernetes' bound service account tokens
// (https://kubernetes.io/docs/concepts/security/service-accounts/#bound-service-account-tokens).
//
//	signer, err := serviceaccount.NewSigner("https://kubernetes.default.svc", key)
//	keys, err := serviceaccount.NewKeySet(key.Public())
//	accounts, err := serviceaccount.New(serviceaccount.Config{
//		Issuers:   []string{"https://kubernetes.default.svc"},
//		Audiences: []string{"https://kubernetes.default.svc"},
//		Keys:      keys,
//		Accounts:  lookup,
//	})
//	chain := authn.Chain{certificates, accounts}
//
// A token is a JSON Web Token (RFC 7519) with Kubernetes' claims. It ends at its expiry, or earlier
// when an object that it is bound to is deleted: the account, and its pod, secret or node. Objects
// are looked up for every request. Only the result of the expensive signature check is cached, by
// the hash of the token. So a token is refused as soon as the [Lookup] sees the deletion.
//
// A bearer token that is not a JSON Web Token, or is from another issuer, is not mine. An invalid
// token of an accepted issuer is refused; the error contains a reason and never a part of the
// token. Only ES256, ES384, ES512 and RS256 are accepted, each for keys of its own kind. Keys are
// identified by the ID that Kubernetes derives from them. To rotate, verify with both keys, sign
// with the new one, and remove the old one when its last token has expired.
//
// A token must be meant for one of the configured audiences, or of those that the request's context
// requires. The matching audiences are reported with [authn.ReportMatched].
//
// [Handlers] publishes the keys, so that other servers can verify tokens.
//
// Legacy tokens, which are kept in secrets and do not expire, are accepted if [Config].Legacy is
// set, as long as the secret contains the same token. Their last use is not recorded.
package serviceaccount

import (
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/planekit/planekit/authn/user"
)

// A Ref identifies an object by name and UID.
type Ref struct {
	Name string `json:"name"`
	UID  string `json:"uid"`
}

// A Grant describes a token.
type Grant struct {
	// Namespace and Account identify the service account. All three fields are required.
	Namespace string
	Account   Ref
	// Pod, Secret and Node bind the token to objects; each may be nil. Together with a pod, the
	// node is informative and does not bind.
	Pod, Secret, Node *Ref
	// Audiences are the audiences of the token; at least one.
	Audiences []string
	// Life is how long the token is valid, in whole seconds.
	Life time.Duration
	// WarnAfter, if not zero, is the time after which the holder should have replaced the token.
	WarnAfter time.Duration
	// ID is the unique ID of the token (its claim jti). Empty means a random one.
	ID string
}

// The keys of user.Info.Extra under which Kubernetes reports the objects that a token is bound to.
const (
	PodNameKey      = "authentication.kubernetes.io/pod-name"
	PodUIDKey       = "authentication.kubernetes.io/pod-uid"
	NodeNameKey     = "authentication.kubernetes.io/node-name"
	NodeUIDKey      = "authentication.kubernetes.io/node-uid"
	CredentialIDKey = "authentication.kubernetes.io/credential-id"
)

// IssuedCredentialIDKey is the audit annotation for an issued token. It is not a key of Extra.
const IssuedCredentialIDKey = "authentication.kubernetes.io/issued-credential-id"

// CredentialID returns the form in which Kubernetes reports the ID of a token.
func CredentialID(id string) string { return "JTI=" + id }

// claims is the payload of a token.
type claims struct {
	jwt.RegisteredClaims
	Kubernetes private `json:"kubernetes.io"`
}

type private struct {
	Namespace string           `json:"namespace,omitempty"`
	Node      *Ref             `json:"node,omitempty"`
	Pod       *Ref             `json:"pod,omitempty"`
	Secret    *Ref             `json:"secret,omitempty"`
	Account   Ref              `json:"serviceaccount"`
	WarnAfter *jwt.NumericDate `json:"warnafter,omitempty"`
}

// Username returns the user name of a service account.
func Username(namespace, name string) string {
	return user.ServiceAccountPrefix + namespace + ":" + name
}

// info returns the user of a token with these claims.
func (c *claims) info() *user.Info {
	k := &c.Kubernetes
	u := &user.Info{
		Name:   Username(k.Namespace, k.Account.Name),
		UID:    k.Account.UID,
		Groups: []string{user.ServiceAccounts, user.ServiceAccounts + ":" + k.Namespace},
	}
	extra := map[string][]string{}
	if c.ID != "" {
		extra[CredentialIDKey] = []string{CredentialID(c.ID)}
	}
	if k.Pod != nil {
		extra[PodNameKey], extra[PodUIDKey] = []string{k.Pod.Name}, []string{k.Pod.UID}
	}
	if k.Node != nil {
		extra[NodeNameKey] = []string{k.Node.Name}
		if k.Node.UID != "" {
			extra[NodeUIDKey] = []string{k.Node.UID}
		}
	}
	if len(extra) > 0 {
		u.Extra = extra
	}
	return u
}
