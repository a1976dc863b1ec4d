package serviceaccount_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"fmt"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/planekit/planekit/authn/serviceaccount"
)

const issuer = "https://kubernetes.default.svc"

// living maps namespace/name to what lives under it.
type living map[string]serviceaccount.Object

func (l living) lookup(_ context.Context, namespace, name, _ string) (serviceaccount.Object, bool, error) {
	o, ok := l[namespace+"/"+name]
	return o, ok, nil
}

func ecKey(curve elliptic.Curve) *ecdsa.PrivateKey {
	key, err := ecdsa.GenerateKey(curve, rand.Reader)
	if err != nil {
		panic(err)
	}
	return key
}

func bearing(token string) *http.Request {
	r := httptest.NewRequest("GET", "/", nil)
	r.Header.Set("Authorization", "Bearer "+token)
	return r
}

func Example() {
	key := ecKey(elliptic.P256())
	signer, err := serviceaccount.NewSigner(issuer, key)
	if err != nil {
		fmt.Println(err)
		return
	}
	keys, err := serviceaccount.NewKeySet(key.Public())
	if err != nil {
		fmt.Println(err)
		return
	}
	accounts := living{"shop/web": {UID: "17"}}
	authenticator, err := serviceaccount.New(serviceaccount.Config{
		Issuers: []string{issuer}, Audiences: []string{issuer}, Keys: keys, Accounts: accounts.lookup,
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	token, err := signer.Sign(serviceaccount.Grant{
		Namespace: "shop", Account: serviceaccount.Ref{Name: "web", UID: "17"},
		Audiences: []string{issuer}, Life: time.Hour,
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	u, known, err := authenticator.Authenticate(bearing(token))
	fmt.Println(u.Name, u.UID, u.Groups, known, err)
	delete(accounts, "shop/web")
	_, known, err = authenticator.Authenticate(bearing(token))
	fmt.Println(known, err)
	// Output:
	// system:serviceaccount:shop:web 17 [system:serviceaccounts system:serviceaccounts:shop] true <nil>
	// false service account token: service account shop/web is gone
}
