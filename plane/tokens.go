package plane

import (
	"cmp"
	"context"
	"net/http"
	"slices"

	"github.com/planekit/planekit/apiserver"
	"github.com/planekit/planekit/apiserver/tokenrequest"
	"github.com/planekit/planekit/authn"
	"github.com/planekit/planekit/authn/serviceaccount"
	"github.com/planekit/planekit/client"
	"github.com/planekit/planekit/client/typed"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// DefaultIssuer is the name in which service account tokens are signed unless Config.Issuer is set.
const DefaultIssuer = "https://kubernetes.default.svc"

// Issuer returns the name in which service account tokens are signed.
func (p *Plane) Issuer() string { return cmp.Or(p.config.Issuer, DefaultIssuer) }

// Audiences returns the names of the API server in tokens.
func (p *Plane) Audiences() []string { return []string{p.Issuer()} }

// tokens issues and verifies service account tokens for the API server.
type tokens struct {
	signer        *serviceaccount.Signer
	authenticator authn.Authenticator
	request       apiserver.Question
	// handlers publish the keys, by path.
	handlers map[string]http.Handler
}

// newTokens joins the signer and the verifier of service account tokens.
func (p *Plane) newTokens(api *client.Client) (*tokens, error) {
	key := p.Credentials.AccountKey
	signer, err := serviceaccount.NewSigner(p.Issuer(), key)
	if err != nil {
		return nil, err
	}
	keys, err := serviceaccount.NewKeySet(key.Public())
	if err != nil {
		return nil, err
	}
	t := &tokens{signer: signer, handlers: serviceaccount.Handlers(p.Issuer(), p.advertisedURL()+serviceaccount.JWKSPath, keys)}
	t.authenticator, err = serviceaccount.New(serviceaccount.Config{
		Issuers: p.Audiences(), Audiences: p.Audiences(), Keys: keys,
		Accounts: lookup(p.Caches.ServiceAccounts.Get, typed.ServiceAccounts(api).Get),
		Pods:     lookup(p.Caches.Pods.Get, typed.Pods(api).Get),
		Secrets:  lookup(p.Caches.Secrets.Get, typed.Secrets(api).Get),
		Nodes:    lookup(p.Caches.Nodes.Get, typed.Nodes(api).Get),
		Legacy:   held(p.Caches.Secrets.Get, typed.Secrets(api).Get),
	})
	if err != nil {
		return nil, err
	}
	t.request, err = tokenrequest.New(tokenrequest.Config{
		Signer: signer, Audiences: p.Audiences(), MaxExpiration: p.config.MaxTokenExpiration, Extend: p.config.ExtendTokens,
		Pods: typed.Pods(api).Get, Secrets: typed.Secrets(api).Get, Nodes: typed.Nodes(api).Get,
	})
	return t, err
}

// serve adds the token subresource to the service accounts among resources.
func (t *tokens) serve(resources []apiserver.Resource) []apiserver.Resource {
	for i := range resources {
		if r := &resources[i]; r.Group == "" && r.Plural == "serviceaccounts" {
			r.Subresources = append(slices.Clip(r.Subresources), t.request)
		}
	}
	return resources
}

// lookup finds an object in a cache, or in the store if the cache does not have the
// one with that UID.
func lookup[T metav1.Object](local func(key string) (T, bool), stored func(ctx context.Context, namespace, name string) (T, error)) serviceaccount.Lookup {
	return func(ctx context.Context, namespace, name, uid string) (serviceaccount.Object, bool, error) {
		key := name
		if namespace != "" {
			key = namespace + "/" + name
		}
		object, ok := local(key)
		if !ok || string(object.GetUID()) != uid {
			var err error
			if object, err = stored(ctx, namespace, name); err != nil {
				if apierrors.IsNotFound(err) {
					err = nil
				}
				return serviceaccount.Object{}, false, err
			}
		}
		found := serviceaccount.Object{UID: string(object.GetUID())}
		if deleted := object.GetDeletionTimestamp(); deleted != nil {
			found.Deleted = deleted.Time
		}
		return found, true, nil
	}
}

// held finds the secret of a token, in the store if the cached one has no token yet.
func held(local func(key string) (*corev1.Secret, bool), stored func(ctx context.Context, namespace, name string) (*corev1.Secret, error)) serviceaccount.HeldLookup {
	return func(ctx context.Context, namespace, name string) (serviceaccount.Held, bool, error) {
		secret, ok := local(namespace + "/" + name)
		if !ok || len(secret.Data[corev1.ServiceAccountTokenKey]) == 0 {
			var err error
			if secret, err = stored(ctx, namespace, name); err != nil {
				if apierrors.IsNotFound(err) {
					err = nil
				}
				return serviceaccount.Held{}, false, err
			}
		}
		return serviceaccount.Held{
			Token:   secret.Data[corev1.ServiceAccountTokenKey],
			Deleted: secret.DeletionTimestamp != nil,
			Invalid: secret.Labels[invalidSince] != "",
		}, true, nil
	}
}

// invalidSince labels secrets whose tokens must not be used any more.
const invalidSince = "kubernetes.io/legacy-token-invalid-since"

// sign makes the token that a secret holds.
func (t *tokens) sign(account *corev1.ServiceAccount, secret *corev1.Secret) (string, error) {
	return t.signer.SignLegacy(account.Namespace, serviceaccount.Ref{Name: account.Name, UID: string(account.UID)}, secret.Name)
}
