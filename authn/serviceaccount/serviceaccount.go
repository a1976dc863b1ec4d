// Package serviceaccount signs and verifies the tokens by which programs in pods
// say who they are: Kubernetes' bound service account tokens
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
// A token is a JSON Web Token (RFC 7519) with Kubernetes' claims. It ends at its
// time, and before that as soon as what it is bound to is gone: the account, and
// the pod, secret or node it was made for. Existence is asked on every request;
// only the signature, which is dear, is remembered, by the hash of the token. So a
// token is refused from the moment that the [Lookup] knows of the deletion.
//
// A bearer token which is not a JSON Web Token, or is another issuer's, is not
// mine. One of ours that does not hold is refused, with a reason in the error and
// never a piece of the token. Only ES256, ES384, ES512 and RS256 are accepted, each
// for keys of its own kind. Keys are told apart by the ID that Kubernetes derives
// from them; to rotate, verify with both keys, sign with the new one, and drop the
// old one when its last token has ended.
//
// A token must be meant for one of the configured audiences, or of those that the
// request's context asks for; those it is meant for are reported
// ([authn.ReportMatched]).
//
// [Handlers] publishes the keys, so that others can verify tokens themselves.
//
// Legacy tokens, which are kept in secrets and have no end, are believed where
// [Config].Legacy is set: as long as the secret has the very token. When they were
// last used is not noted.
package serviceaccount

import (
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/planekit/planekit/authn/user"
)

// A Ref names an object, and tells it from others that bore the name before.
type Ref struct {
	Name string `json:"name"`
	UID  string `json:"uid"`
}

// A Grant is what a token says.
type Grant struct {
	// Namespace and Account are whose token it is. All must be set.
	Namespace string
	Account   Ref
	// Pod, Secret and Node bind the token to objects; each may be nil. Beside a
	// pod, the node says where it runs and binds to nothing.
	Pod, Secret, Node *Ref
	// Audiences are for whom the token is; at least one.
	Audiences []string
	// Life is how long the token holds, in whole seconds.
	Life time.Duration
	// WarnAfter, when not zero, is when the holder should have fetched another.
	WarnAfter time.Duration
	// ID is the name of the token itself (its claim jti), which no other has. Empty
	// means a random one.
	ID string
}

// The keys of user.Info.Extra by which Kubernetes tells what a token is bound to.
const (
	PodNameKey      = "authentication.kubernetes.io/pod-name"
	PodUIDKey       = "authentication.kubernetes.io/pod-uid"
	NodeNameKey     = "authentication.kubernetes.io/node-name"
	NodeUIDKey      = "authentication.kubernetes.io/node-uid"
	CredentialIDKey = "authentication.kubernetes.io/credential-id"
)

// IssuedCredentialIDKey is the key by which an audit tells which token was given
// out. It is no key of Extra.
const IssuedCredentialIDKey = "authentication.kubernetes.io/issued-credential-id"

// CredentialID is how Kubernetes tells a token by its ID.
func CredentialID(id string) string { return "JTI=" + id }

// claims are the payload of a token.
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

// Username is the user name of a service account.
func Username(namespace, name string) string {
	return user.ServiceAccountPrefix + namespace + ":" + name
}

// info is the user that a token with these claims stands for.
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
