package account

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/go-logr/logr"
	"github.com/planekit/planekit/localcache"
	"github.com/planekit/planekit/reconcile"
	"github.com/planekit/planekit/reconcile/controllers"
	"github.com/planekit/planekit/reconcile/controllers/internal/loop"
	"github.com/planekit/planekit/reconcile/controllers/owner"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// TokenSigner returns the token that a secret holds for an account. The token must only be valid
// while the secret holds it.
type TokenSigner func(account *corev1.ServiceAccount, secret *corev1.Secret) (string, error)

// TokenConfig configures a Token. All fields before CA are required.
type TokenConfig struct {
	ServiceAccounts localcache.Cache[*corev1.ServiceAccount]
	Secrets         localcache.Cache[*corev1.Secret]
	// SecretsByNamespace is an index of Secrets by [controllers.ByNamespace].
	SecretsByNamespace localcache.Index[string, *corev1.Secret]
	// ServiceAccountWriter reads accounts from the API, not from a cache, and writes them.
	ServiceAccountWriter interface {
		Get(ctx context.Context, namespace, name string) (*corev1.ServiceAccount, error)
		controllers.Updater[*corev1.ServiceAccount]
	}
	Writer interface {
		controllers.Updater[*corev1.Secret]
		controllers.Deleter
	}
	Sign TokenSigner
	// CA is the certificate authority of the API server, in PEM, which secrets hold beside the
	// token. Empty leaves it out.
	CA []byte
	// Workers is the number of secrets processed concurrently. Zero means 5.
	Workers int
	// Metrics receives the measurements of the queue and the workers. Nil means none.
	Metrics controllers.Metrics
	// Log receives failures. The zero Logger discards them.
	Log logr.Logger
}

// Token fills the secrets of type kubernetes.io/service-account-token: with a token of the account
// that they name, its namespace, and the certificate authority of the API server. It deletes the
// secrets of deleted accounts, and removes the references of accounts to deleted secrets.
type Token struct {
	*reconcile.Controller[string]
	config TokenConfig
	ledger owner.Ledger

	mu sync.Mutex
	// gone are the accounts of secrets that were seen to be deleted. Guarded by mu.
	gone map[string]namedAccount
}

// namedAccount is the account that a secret names. Without a UID it is whichever
// has the name.
type namedAccount struct {
	name string
	uid  types.UID
}

func accountOf(secret *corev1.Secret) namedAccount {
	return namedAccount{secret.Annotations[corev1.ServiceAccountNameKey], types.UID(secret.Annotations[corev1.ServiceAccountUIDKey])}
}

func (n namedAccount) is(a *corev1.ServiceAccount) bool { return n.uid == "" || a.UID == n.uid }

// NewToken returns a controller, or an error if config lacks a required field. It starts nothing.
func NewToken(config TokenConfig) (*Token, error) {
	err := loop.Required("account: TokenConfig", "ServiceAccounts", config.ServiceAccounts, "Secrets", config.Secrets,
		"SecretsByNamespace", config.SecretsByNamespace, "ServiceAccountWriter", config.ServiceAccountWriter, "Writer", config.Writer)
	if err != nil {
		return nil, err
	}
	if config.Sign == nil {
		return nil, errors.New("account: TokenConfig: no Sign")
	}
	c := &Token{config: config, gone: map[string]namedAccount{}}
	if c.Controller, err = loop.New(loop.Config{Name: "token", Workers: config.Workers, Log: config.Log, Metrics: config.Metrics}, c.reconcile); err != nil {
		return nil, err
	}
	reconcile.WatchFunc(c.Controller, config.Secrets, c.secretChanged)
	reconcile.WatchFunc(c.Controller, config.ServiceAccounts, func(old, new *corev1.ServiceAccount) {
		if old == nil || new != nil && old.UID == new.UID {
			return // changes of the secrets say which tokens exist
		}
		for secret := range config.SecretsByNamespace.Get(old.Namespace) {
			if holdsToken(secret) && secret.Annotations[corev1.ServiceAccountNameKey] == old.Name {
				c.Enqueue(localcache.KeyOf(secret))
			}
		}
	})
	return c, nil
}

func holdsToken(secret *corev1.Secret) bool {
	return secret.Type == corev1.SecretTypeServiceAccountToken
}

func (c *Token) secretChanged(old, new *corev1.Secret) {
	secret := cmp.Or(new, old)
	if !holdsToken(secret) {
		return
	}
	if new == nil {
		c.mu.Lock()
		c.gone[localcache.KeyOf(old)] = accountOf(old)
		c.mu.Unlock()
	}
	c.Enqueue(localcache.KeyOf(secret))
}

func (c *Token) reconcile(ctx context.Context, name string) (reconcile.Result, error) {
	if err := c.ledger.Wait(ctx, name); err != nil {
		return reconcile.Result{}, err
	}
	secret, ok := c.config.Secrets.Get(name)
	if !ok {
		return reconcile.Result{}, c.unrefer(ctx, name)
	}
	c.mu.Lock()
	delete(c.gone, name)
	c.mu.Unlock()
	if !holdsToken(secret) || secret.DeletionTimestamp != nil || secret.Annotations[corev1.ServiceAccountNameKey] == "" {
		return reconcile.Result{}, nil
	}
	account, err := c.account(ctx, secret)
	if err != nil {
		return reconcile.Result{}, err
	}
	if account == nil {
		err := c.config.Writer.Delete(ctx, secret.Namespace, secret.Name, metav1.DeleteOptions{
			Preconditions: &metav1.Preconditions{UID: &secret.UID, ResourceVersion: &secret.ResourceVersion},
		})
		if err != nil && !apierrors.IsNotFound(err) {
			return reconcile.Result{}, fmt.Errorf("delete secret %s of an account that is gone: %w", name, err)
		}
		return reconcile.Result{}, nil
	}
	want, err := planToken(secret, account, c.config.CA, c.config.Sign)
	if err != nil || want == nil {
		return reconcile.Result{}, err
	}
	stored, err := c.config.Writer.Update(ctx, want)
	switch {
	case apierrors.IsNotFound(err):
		return reconcile.Result{}, nil
	case err != nil:
		return reconcile.Result{}, fmt.Errorf("update secret %s: %w", name, err)
	}
	c.ledger.Add(name, c.config.Secrets, stored.ResourceVersion)
	return reconcile.Result{}, nil
}

// account is the one that secret names, or nil if there is no such account where
// they are stored.
func (c *Token) account(ctx context.Context, secret *corev1.Secret) (*corev1.ServiceAccount, error) {
	named := accountOf(secret)
	if account, ok := c.config.ServiceAccounts.Get(localcache.Key(secret.Namespace, named.name)); ok && named.is(account) {
		return account, nil
	}
	account, err := c.config.ServiceAccountWriter.Get(ctx, secret.Namespace, named.name)
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("service account %s/%s: %w", secret.Namespace, named.name, err)
	case !named.is(account):
		return nil, nil
	}
	return account, nil
}

// planToken returns what secret must become for account, or nil if it needs no change. A token that
// the secret has stays.
func planToken(secret *corev1.Secret, account *corev1.ServiceAccount, ca []byte, sign TokenSigner) (*corev1.Secret, error) {
	needsCA := len(ca) > 0 && string(secret.Data[corev1.ServiceAccountRootCAKey]) != string(ca)
	needsNamespace := len(secret.Data[corev1.ServiceAccountNamespaceKey]) == 0
	needsToken := len(secret.Data[corev1.ServiceAccountTokenKey]) == 0
	if !needsCA && !needsNamespace && !needsToken {
		return nil, nil
	}
	want := secret.DeepCopy()
	if want.Data == nil {
		want.Data = map[string][]byte{}
	}
	if needsCA {
		want.Data[corev1.ServiceAccountRootCAKey] = ca
	}
	if needsNamespace {
		want.Data[corev1.ServiceAccountNamespaceKey] = []byte(secret.Namespace)
	}
	if needsToken {
		token, err := sign(account, secret)
		if err != nil {
			return nil, fmt.Errorf("sign the token of secret %s: %w", localcache.KeyOf(secret), err)
		}
		want.Data[corev1.ServiceAccountTokenKey] = []byte(token)
	}
	want.Annotations[corev1.ServiceAccountUIDKey] = string(account.UID)
	return want, nil
}

// unrefer has the account refer no more to a secret that is gone.
func (c *Token) unrefer(ctx context.Context, secret string) error {
	c.mu.Lock()
	named := c.gone[secret]
	c.mu.Unlock()
	if named.name == "" {
		return nil
	}
	namespace, secretName, _ := strings.Cut(secret, "/")
	account, err := c.config.ServiceAccountWriter.Get(ctx, namespace, named.name)
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("service account %s/%s: %w", namespace, named.name, err)
	}
	if err == nil && named.is(account) {
		refers := func(r corev1.ObjectReference) bool { return r.Name == secretName }
		if slices.ContainsFunc(account.Secrets, refers) {
			account = account.DeepCopy()
			account.Secrets = slices.DeleteFunc(account.Secrets, refers)
			if _, err := c.config.ServiceAccountWriter.Update(ctx, account); err != nil && !apierrors.IsNotFound(err) {
				return fmt.Errorf("update service account %s/%s: %w", namespace, named.name, err)
			}
		}
	}
	c.mu.Lock()
	delete(c.gone, secret)
	c.mu.Unlock()
	return nil
}
