package review_test

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/planekit/planekit/apiserver/apiservertest"
	"github.com/planekit/planekit/apiserver/review"
	"github.com/planekit/planekit/authn"
	"github.com/planekit/planekit/authn/anonymous"
	"github.com/planekit/planekit/authn/serviceaccount"
	"github.com/planekit/planekit/authn/tokenfile"
	"github.com/planekit/planekit/authn/user"
	"github.com/planekit/planekit/authz"
	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// accounts is an authenticator of service accounts' tokens, and how they are made.
func accounts(t *testing.T) (authn.Authenticator, func(audiences ...string) string) {
	t.Helper()
	const issuer = "https://cluster.example.com"
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	signer, err := serviceaccount.NewSigner(issuer, key)
	if err != nil {
		t.Fatal(err)
	}
	keys, err := serviceaccount.NewKeySet(key.Public())
	if err != nil {
		t.Fatal(err)
	}
	a, err := serviceaccount.New(serviceaccount.Config{
		Issuers: []string{issuer}, Audiences: []string{"api", "api-old"}, Keys: keys,
		Accounts: func(context.Context, string, string, string) (serviceaccount.Object, bool, error) {
			return serviceaccount.Object{UID: "17"}, true, nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	return a, func(audiences ...string) string {
		token, err := signer.Sign(serviceaccount.Grant{Namespace: "shop", Account: serviceaccount.Ref{Name: "web", UID: "17"},
			Audiences: audiences, Life: time.Hour})
		if err != nil {
			t.Fatal(err)
		}
		return token
	}
}

// TestTokenReviewAudiences: whom a token is for, where it says and where it does not.
func TestTokenReviewAudiences(t *testing.T) {
	bound, sign := accounts(t)
	static, err := tokenfile.New([]tokenfile.Entry{{Token: "static-token", User: user.Info{Name: "jane"}}})
	if err != nil {
		t.Fatal(err)
	}
	chain := authn.Chain{static, bound, anonymous.Authenticator{}}
	own := []string{"api", "api-old"}
	for _, test := range []struct {
		name, token string
		own, asked  []string
		want        []string
		user        string // empty: not authenticated
		err         string
	}{
		{name: "for us", token: sign("api"), own: own, want: []string{"api"}, user: "system:serviceaccount:shop:web"},
		{name: "for us twice", token: sign("x", "api-old", "api"), own: own, want: []string{"api-old", "api"}, user: "system:serviceaccount:shop:web"},
		{name: "for another", token: sign("vault"), own: own, err: "another audience"},
		{name: "for another, who asks", token: sign("vault"), own: own, asked: []string{"vault"}, want: []string{"vault"}, user: "system:serviceaccount:shop:web"},
		{name: "for us, asked by another", token: sign("api"), own: own, asked: []string{"vault"}, err: "another audience"},
		{name: "one of several", token: sign("api", "vault"), own: own, asked: []string{"db", "vault"}, want: []string{"vault"}, user: "system:serviceaccount:shop:web"},
		{name: "says not for whom", token: "static-token", own: own, want: own, user: "jane"},
		{name: "says not for whom, asked by us", token: "static-token", own: own, asked: []string{"api-old", "vault"}, want: []string{"api-old"}, user: "jane"},
		{name: "says not for whom, asked by another", token: "static-token", own: own, asked: []string{"vault"}},
		{name: "who we are is not known", token: "static-token", user: "jane"},
		{name: "who we are is not known, another asks", token: "static-token", asked: []string{"vault"}},
		{name: "who we are is not known, the token says", token: sign("api"), want: []string{"api"}, user: "system:serviceaccount:shop:web"},
		{name: "nobody's", token: "guess", own: own, err: "unknown bearer token"},
	} {
		s := apiservertest.Start(t, apiservertest.WithResources(review.Resources(chain, authz.Func(authorize), test.own...)...))
		got := ask(t, s.Client(), s.URL, test.token, test.asked)
		if got.Spec.Token != "" || got.Status.Authenticated != (test.user != "") || got.Status.User.Username != test.user ||
			!slices.Equal(got.Status.Audiences, test.want) || !strings.Contains(got.Status.Error, test.err) || (test.err == "") != (got.Status.Error == "") {
			t.Errorf("%s: the review has %+v and a token: %v, want user %q, audiences %q, an error with %q (none if empty) and no token",
				test.name, got.Status, got.Spec.Token != "", test.user, test.want, test.err)
		}
	}
}

func ask(t *testing.T, client *http.Client, url, token string, audiences []string) *authenticationv1.TokenReview {
	t.Helper()
	out := &authenticationv1.TokenReview{
		TypeMeta: metav1.TypeMeta{APIVersion: "authentication.k8s.io/v1", Kind: "TokenReview"},
		Spec:     authenticationv1.TokenReviewSpec{Token: token, Audiences: audiences},
	}
	body, err := json.Marshal(out)
	if err != nil {
		t.Fatal(err)
	}
	response, err := client.Post(url+"/apis/authentication.k8s.io/v1/tokenreviews", "application/json", bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	data, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode != http.StatusCreated || bytes.Contains(data, []byte(token)) {
		t.Fatalf("POST of a TokenReview = %d %s, %v, want 201 without the token", response.StatusCode, data, err)
	}
	out.Spec.Token = ""
	if err := json.Unmarshal(data, out); err != nil {
		t.Fatal(err)
	}
	return out
}
