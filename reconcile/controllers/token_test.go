package controllers_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/planekit/planekit/localcache"
	"github.com/planekit/planekit/reconcile/controllers"
	"github.com/planekit/planekit/reconcile/controllers/account"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// tokenWorld is an API with accounts and secrets.
type tokenWorld struct {
	*api
	accounts *collection[*corev1.ServiceAccount]
	secrets  *collection[*corev1.Secret]
}

func newTokenWorld() *tokenWorld {
	a := &api{}
	return &tokenWorld{a,
		newCollection(a, "ServiceAccount", func() *corev1.ServiceAccount { return &corev1.ServiceAccount{} }),
		newCollection(a, "Secret", func() *corev1.Secret { return &corev1.Secret{} })}
}

func (w *tokenWorld) launch(t *testing.T, l lag) *process { return w.launchWith(t, l, l) }

func (w *tokenWorld) launchWith(t *testing.T, accountLag, secretLag lag) *process {
	return launch(t, func(ctx context.Context) []controllers.Runner {
		secrets := follow(ctx, w.secrets, secretLag)
		return []controllers.Runner{must[*account.Token](t)(account.NewToken(account.TokenConfig{
			ServiceAccounts: follow(ctx, w.accounts, accountLag), Secrets: secrets,
			SecretsByNamespace:   localcache.Scan(secrets, controllers.ByNamespace[*corev1.Secret]),
			ServiceAccountWriter: w.accounts, Writer: w.secrets, CA: []byte("authority"),
			Sign: func(a *corev1.ServiceAccount, s *corev1.Secret) (string, error) {
				if a.Name == "unsigned" {
					return "", errors.New("no key")
				}
				return fmt.Sprintf("%s %s for %s", a.Name, a.UID, s.Name), nil
			},
		}))}
	})
}

func newTokenSecret(name, account string) *corev1.Secret {
	return &corev1.Secret{Type: corev1.SecretTypeServiceAccountToken,
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, Annotations: map[string]string{corev1.ServiceAccountNameKey: account}}}
}

func newAccount(name string) *corev1.ServiceAccount {
	return &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}
}

// converged checks that each secret has the token of an account that lives.
func (w *tokenWorld) converged(t *testing.T) {
	t.Helper()
	accounts := map[string]*corev1.ServiceAccount{}
	for _, a := range w.accounts.list() {
		accounts[a.Name] = a
		for _, ref := range a.Secrets {
			if _, err := w.secrets.Get(t.Context(), "default", ref.Name); err != nil {
				t.Errorf("%s refers to %s, which is gone", a.Name, ref.Name)
			}
		}
	}
	for _, s := range w.secrets.list() {
		a := accounts[s.Annotations[corev1.ServiceAccountNameKey]]
		if a == nil {
			t.Errorf("secret %s of an account that is gone", s.Name)
			continue
		}
		if want := fmt.Sprintf("%s %s for %s", a.Name, a.UID, s.Name); string(s.Data["token"]) != want || string(s.Data["ca.crt"]) != "authority" ||
			string(s.Data["namespace"]) != "default" || s.Annotations[corev1.ServiceAccountUIDKey] != string(a.UID) {
			t.Errorf("secret %s has %v, %q; want %q", s.Name, s.Annotations, s.Data, want)
		}
	}
}

func TestToken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newTokenWorld()
		p := w.launch(t, lag{})
		put(w.accounts, newAccount("builder"))
		put(w.accounts, newAccount("unsigned"))
		put(w.secrets, newTokenSecret("one", "builder"))
		given := newTokenSecret("given", "builder")
		given.Data = map[string][]byte{"token": []byte("brought along")}
		put(w.secrets, given)
		put(w.secrets, newTokenSecret("none", "unsigned"))
		other := newTokenSecret("other", "builder")
		other.Type = corev1.SecretTypeOpaque
		put(w.secrets, other)
		put(w.secrets, newTokenSecret("of nobody", "nobody"))
		going := newTokenSecret("going", "builder")
		going.Finalizers, going.DeletionTimestamp, going.DeletionGracePeriodSeconds = []string{"example.com/held"}, &metav1.Time{Time: time.Now()}, new(int64)
		put(w.secrets, going)
		synctest.Wait()
		if held, err := w.secrets.Get(t.Context(), "default", "going"); err != nil || len(held.Data) != 0 {
			t.Errorf("one that goes: %v, %v", held, err)
		}
		w.secrets.alter(t, "default/going", func(s *corev1.Secret) { s.Finalizers = nil })
		synctest.Wait()
		got := map[string]string{}
		for _, s := range w.secrets.list() {
			got[s.Name] = string(s.Data["token"]) + " " + string(s.Data["ca.crt"])
		}
		builder := w.accounts.list()[0]
		if len(got) != 4 || got["one"] != fmt.Sprintf("builder %s for one authority", builder.UID) || got["given"] != "brought along authority" ||
			got["none"] != " " || got["other"] != " " {
			t.Errorf("secrets %q", got)
		}
		writes := len(w.wrote())
		w.secrets.alter(t, "default/one", func(s *corev1.Secret) { s.Labels = map[string]string{"a": "b"} })
		time.Sleep(time.Minute)
		if got := w.wrote()[writes:]; len(got) > 0 {
			t.Errorf("written without need: %v", got)
		}
		// A removed token is created again.
		w.secrets.alter(t, "default/given", func(s *corev1.Secret) { delete(s.Data, "token") })
		w.accounts.alter(t, "default/builder", func(a *corev1.ServiceAccount) {
			a.Secrets = []corev1.ObjectReference{{Name: "one"}, {Name: "kept"}}
		})
		synctest.Wait()
		if err := w.secrets.Delete(t.Context(), "default", "one", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if refs := w.accounts.list()[0].Secrets; len(refs) != 1 || refs[0].Name != "kept" {
			t.Errorf("the account refers to %v", refs)
		}
		if given, _ := w.secrets.Get(t.Context(), "default", "given"); string(given.Data["token"]) != fmt.Sprintf("builder %s for given", builder.UID) {
			t.Errorf("a token that was taken out: %q", given.Data)
		}
		// A new account of the same name has nothing of the old one's.
		if err := w.accounts.Delete(t.Context(), "default", "builder", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		again := newAccount("builder")
		again.Secrets = []corev1.ObjectReference{{Name: "given"}}
		put(w.accounts, again)
		settle()
		if refs := w.accounts.list()[0].Secrets; len(refs) != 1 {
			t.Error("a reference went with the token of another account of that name")
		}
		if _, err := w.secrets.Get(t.Context(), "default", "given"); err == nil {
			t.Error("the token of an account that is gone is left")
		}
		if _, err := w.secrets.Get(t.Context(), "default", "other"); err != nil {
			t.Errorf("a secret of another type: %v", err)
		}
		p.stop(t)
	})
}

// churn makes and deletes accounts and secrets at random.
func (w *tokenWorld) churn(t *testing.T, r *rand.Rand, steps int) {
	ctx := context.WithoutCancel(t.Context())
	for range steps {
		time.Sleep(time.Duration(r.IntN(3000)) * time.Millisecond)
		account, secret := fmt.Sprint("account", r.IntN(3)), fmt.Sprint("secret", r.IntN(6))
		switch r.IntN(6) {
		case 0, 1:
			_, _ = w.accounts.Create(ctx, newAccount(account)) // may be there, may fail
		case 2:
			_ = w.accounts.Delete(ctx, "default", account, metav1.DeleteOptions{})
		case 3:
			_ = w.secrets.Delete(ctx, "default", secret, metav1.DeleteOptions{})
		default:
			s := newTokenSecret(secret, account)
			// The maker says which account of that name it means.
			if a, err := w.accounts.Get(ctx, "default", account); err == nil {
				s.Annotations[corev1.ServiceAccountUIDKey] = string(a.UID)
			}
			_, _ = w.secrets.Create(ctx, s)
		}
	}
}

// TestTokenFaults has copies that are old and miss changes, writes that fail
// before or after they took effect, and processes that are replaced.
func TestTokenFaults(t *testing.T) {
	for seed := range uint64(30) {
		t.Run(fmt.Sprint("seed=", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := rand.New(rand.NewPCG(seed, 13))
				w := newTokenWorld()
				noFaults := (&world{api: w.api}).faults(r, 20)
				for range 4 {
					p := w.launch(t, lag{random: r, most: time.Duration(1+r.IntN(8)) * time.Second, relist: r.IntN(40)})
					w.churn(t, r, 50)
					p.stop(t)
				}
				noFaults()
				p := w.launch(t, lag{random: r, most: time.Second})
				settle()
				w.converged(t)
				p.stop(t)
			})
		})
	}
}

// TestTokenCrash has the process die at each of its writes, done or not.
func TestTokenCrash(t *testing.T) {
	for at := range 4 {
		for _, applied := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				w := newTokenWorld()
				n := 0
				w.fault = func(string, string) (bool, error) {
					switch n++; {
					case n <= at:
						return true, nil
					case n == at+1:
						return applied, errLost
					}
					return false, errLost
				}
				p := w.launch(t, lag{})
				put(w.accounts, newAccount("a"))
				put(w.accounts, newAccount("b"))
				for _, name := range []string{"one", "two"} {
					put(w.secrets, newTokenSecret(name, "a"))
				}
				put(w.secrets, newTokenSecret("three", "b"))
				put(w.secrets, newTokenSecret("four", "nobody"))
				time.Sleep(time.Minute)
				synctest.Wait()
				w.mu.Lock()
				if n <= at {
					t.Errorf("it did not write %d times", at+1)
				}
				w.mu.Unlock()
				p.stop(t)
				w.mu.Lock()
				w.fault = nil
				w.mu.Unlock()
				p = w.launch(t, lag{})
				settle()
				w.converged(t)
				p.stop(t)
			})
		}
	}
}
