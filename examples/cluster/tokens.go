package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/planekit/planekit/apiserver"
	"github.com/planekit/planekit/apiserver/tokenrequest"
	"github.com/planekit/planekit/authn"
	"github.com/planekit/planekit/authn/serviceaccount"
	"github.com/planekit/planekit/client"
	"github.com/planekit/planekit/client/typed"
	"github.com/planekit/planekit/kubelet"
	"github.com/planekit/planekit/pki"
	"github.com/planekit/planekit/reconcile/controllers"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// issuer is in whose name service account tokens are signed, and for whom they
// are where nobody says otherwise.
const issuer = "https://kubernetes.default.svc"

// extendedLife is how long the token of a pod holds that programs may not read
// again; kube-apiserver's figure.
const extendedLife = 365 * 24 * time.Hour

// accountTokens is what the API server needs to give service accounts tokens and
// to know them again.
type accountTokens struct {
	signer        *serviceaccount.Signer
	authenticator authn.Authenticator
	request       apiserver.Question
	// handlers publish the keys, by path.
	handlers map[string]http.Handler
}

// newAccountTokens reads the signing key in the data directory or makes it.
func (c *cluster) newAccountTokens(api *client.Client, credentials *credentials) (*accountTokens, error) {
	key, err := pki.Key(c.dir.join("pki", "sa.key"))
	if err != nil {
		return nil, err
	}
	signer, err := serviceaccount.NewSigner(issuer, key)
	if err != nil {
		return nil, err
	}
	keys, err := serviceaccount.NewKeySet(key.Public())
	if err != nil {
		return nil, err
	}
	t := &accountTokens{signer: signer, handlers: serviceaccount.Handlers(issuer, serverURL(credentials.address)+serviceaccount.JWKSPath, keys)}
	t.authenticator, err = serviceaccount.New(serviceaccount.Config{
		Issuers: []string{issuer}, Audiences: audiences, Keys: keys,
		Accounts: lookup(c.copies.serviceAccounts.Get, typed.ServiceAccounts(api).Get),
		Pods:     lookup(c.copies.pods.Get, typed.Pods(api).Get),
		Secrets:  lookup(c.copies.secrets.Get, typed.Secrets(api).Get),
		Nodes:    lookup(c.copies.nodes.Get, typed.Nodes(api).Get),
		Legacy:   held(c.copies.secrets.Get, typed.Secrets(api).Get),
	})
	if err != nil {
		return nil, err
	}
	o := c.options.access.accountTokens
	var extend time.Duration
	if o.extend {
		extend = extendedLife
	}
	t.request, err = tokenrequest.New(tokenrequest.Config{
		Signer: signer, Audiences: audiences, MaxExpiration: o.longest, Extend: extend,
		Pods: typed.Pods(api).Get, Secrets: typed.Secrets(api).Get, Nodes: typed.Nodes(api).Get,
	})
	return t, err
}

// serve adds the token subresource to the service accounts among resources.
func (t *accountTokens) serve(resources []apiserver.Resource) []apiserver.Resource {
	for i := range resources {
		if r := &resources[i]; r.Group == "" && r.Plural == "serviceaccounts" {
			r.Subresources = append(slices.Clip(r.Subresources), t.request)
		}
	}
	return resources
}

// lookup finds an object in a local copy, or where it is stored if the copy does
// not have the one that is asked for.
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

// held finds the secret of a token, where secrets are stored if the local copy has
// no token yet.
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

// invalidSince labels secrets whose tokens are not to be used any more.
const invalidSince = "kubernetes.io/legacy-token-invalid-since"

// sign makes the token that a secret holds.
func (t *accountTokens) sign(account *corev1.ServiceAccount, secret *corev1.Secret) (string, error) {
	return t.signer.SignLegacy(account.Namespace, serviceaccount.Ref{Name: account.Name, UID: string(account.UID)}, secret.Name)
}

func (m *manager) token() (runner, error) {
	return controllers.NewToken(controllers.TokenConfig{
		ServiceAccounts:    m.copies.serviceAccounts,
		Secrets:            m.copies.secrets,
		SecretsByNamespace: m.secretsByNamespace,
		Accounts:           typed.ServiceAccounts(m.api),
		Writer:             typed.Secrets(m.api),
		Sign:               m.cluster.tokens.sign,
		CA:                 m.ca,
		Workers:            m.workersOf("concurrent-serviceaccount-token-syncs"),
		Log:                m.log,
	})
}

// requestTokens asks the API server for the tokens of a node's pods.
func requestTokens(api *client.Client) kubelet.Tokens {
	return func(ctx context.Context, namespace, account string, request *authenticationv1.TokenRequest) (*authenticationv1.TokenRequest, error) {
		body := request.DeepCopy()
		body.APIVersion, body.Kind = authenticationv1.SchemeGroupVersion.String(), "TokenRequest"
		data, err := json.Marshal(body)
		if err != nil {
			return nil, err
		}
		path := fmt.Sprintf("/api/v1/namespaces/%s/serviceaccounts/%s/token", url.PathEscape(namespace), url.PathEscape(account))
		answer, err := api.Do(ctx, client.Request{Method: http.MethodPost, Path: path, Body: data})
		if err != nil {
			return nil, err
		}
		issued := &authenticationv1.TokenRequest{}
		return issued, json.Unmarshal(answer.Body, issued)
	}
}

func (m *manager) rootCA() (runner, error) {
	return controllers.NewRootCA(controllers.RootCAConfig{
		Namespaces: m.copies.namespaces,
		ConfigMaps: m.copies.configMaps,
		Writer:     typed.ConfigMaps(m.api),
		CA:         m.ca,
		Log:        m.log,
	})
}
