package oidc_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"fmt"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/planekit/planekit/authn"
	"github.com/planekit/planekit/authn/oidc"
	"github.com/planekit/planekit/authn/serviceaccount"
)

// The service accounts of another cluster are users of this one: its API server is an issuer.
func Example() {
	const cluster = "https://other.example.com"
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		fmt.Println(err)
		return
	}
	keys, err := serviceaccount.NewKeySet(key.Public())
	if err != nil {
		fmt.Println(err)
		return
	}
	signer, err := serviceaccount.NewSigner(cluster, key)
	if err != nil {
		fmt.Println(err)
		return
	}
	handlers := serviceaccount.Handlers(cluster, cluster+serviceaccount.JWKSPath, keys)

	others, err := oidc.New(oidc.Config{Issuers: []oidc.Issuer{{
		URL: cluster, ClientIDs: []string{"this-cluster"}, UsernamePrefix: "other:", Algorithms: []string{"ES256"},
		Transport: roundTrip(func(r *http.Request) (*http.Response, error) { // in place of a network
			w := httptest.NewRecorder()
			handlers[r.URL.Path].ServeHTTP(w, r)
			return w.Result(), nil
		}),
	}}})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	done := make(chan error)
	go func() { done <- others.Run(ctx) }()
	<-others.Ready()

	for _, audience := range []string{"this-cluster", "vault"} {
		token, err := signer.Sign(serviceaccount.Grant{Namespace: "shop", Account: serviceaccount.Ref{Name: "web", UID: "17"},
			Audiences: []string{audience}, Life: time.Hour})
		if err != nil {
			fmt.Println(err)
			return
		}
		u, known, err := authn.Chain{others}.Authenticate(bearing(token))
		if known {
			fmt.Println(u.Name, u.Groups)
		} else {
			fmt.Println(err)
		}
	}
	cancel()
	fmt.Println(<-done)
	// Output:
	// other:system:serviceaccount:shop:web [system:authenticated]
	// oidc: the token is for another audience
	// <nil>
}
