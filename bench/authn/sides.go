package main

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	stdx509 "crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"math/big"
	"net/http"
	"time"

	"github.com/planekit/planekit/authn"
	"github.com/planekit/planekit/authn/tokencache"
	"github.com/planekit/planekit/authn/tokenfile"
	"github.com/planekit/planekit/authn/user"
	"github.com/planekit/planekit/authn/x509"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/request/bearertoken"
	stockx509 "k8s.io/apiserver/pkg/authentication/request/x509"
	"k8s.io/apiserver/pkg/authentication/token/cache"
	stocktokens "k8s.io/apiserver/pkg/authentication/token/tokenfile"
	stockuser "k8s.io/apiserver/pkg/authentication/user"
)

var errUnknown = errors.New("the user is not known")

// asks returns an ask of an authenticator of planekit for r.
func asks(a authn.Authenticator, r *http.Request) ask {
	return func() error {
		if u, known, err := a.Authenticate(r); err != nil || !known || u.Name != "jane" {
			return errors.Join(err, errUnknown)
		}
		return nil
	}
}

// asksStock returns an ask of one of kube-apiserver's authenticators. It removes the header of an
// authenticated request, so each request has its own.
func asksStock(a authenticator.Request, r *http.Request) ask {
	header := r.Header.Get("Authorization")
	return func() error {
		if header != "" {
			r.Header.Set("Authorization", header)
		}
		if u, known, err := a.AuthenticateRequest(r); err != nil || !known || u.User.GetName() != "jane" {
			return errors.Join(err, errUnknown)
		}
		return nil
	}
}

// pairs returns all measurements.
func pairs() ([]pair, error) {
	var all []pair
	for _, key := range []struct {
		name string
		make func() (crypto.Signer, error)
	}{
		{"certificate, ECDSA", func() (crypto.Signer, error) { return ecdsa.GenerateKey(elliptic.P256(), rand.Reader) }},
		{"certificate, RSA 2048", func() (crypto.Signer, error) { return rsa.GenerateKey(rand.Reader, 2048) }},
	} {
		p, err := certificates(key.name, key.make)
		if err != nil {
			return nil, err
		}
		all = append(all, p)
	}
	static, err := tokens()
	return append(all, static...), err
}

// certificates compares the verification of the same client certificate.
func certificates(name string, key func() (crypto.Signer, error)) (pair, error) {
	client, roots, err := issue(key)
	if err != nil {
		return pair{}, err
	}
	r := bearing("")
	r.Header.Del("Authorization")
	r.TLS = &tls.ConnectionState{PeerCertificates: []*stdx509.Certificate{client}}
	ours, err := x509.New(x509.Config{Roots: roots})
	if err != nil {
		return pair{}, err
	}
	options := stockx509.DefaultVerifyOptions()
	options.Roots = roots
	return pair{name, asks(ours, r), asksStock(stockx509.New(options, stockx509.CommonNameUserConversion), r.Clone(r.Context()))}, nil
}

// issue creates an authority and a client certificate of it.
func issue(key func() (crypto.Signer, error)) (*stdx509.Certificate, *stdx509.CertPool, error) {
	authority, err1 := key()
	own, err2 := key()
	if err := errors.Join(err1, err2); err != nil {
		return nil, nil, err
	}
	template := func(name string) *stdx509.Certificate {
		return &stdx509.Certificate{
			SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name, Organization: []string{"devs"}},
			NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		}
	}
	ca, leaf := template("ca"), template("jane")
	ca.IsCA, ca.BasicConstraintsValid, ca.KeyUsage = true, true, stdx509.KeyUsageCertSign
	leaf.ExtKeyUsage = []stdx509.ExtKeyUsage{stdx509.ExtKeyUsageClientAuth}
	der, err := stdx509.CreateCertificate(rand.Reader, ca, ca, authority.Public(), authority)
	if err != nil {
		return nil, nil, err
	}
	if ca, err = stdx509.ParseCertificate(der); err != nil {
		return nil, nil, err
	}
	if der, err = stdx509.CreateCertificate(rand.Reader, leaf, ca, own.Public(), authority); err != nil {
		return nil, nil, err
	}
	roots := stdx509.NewCertPool()
	roots.AddCert(ca)
	client, err := stdx509.ParseCertificate(der)
	return client, roots, err
}

// tokens compares the look-up of one of 10,000 static tokens, and of a cached token.
func tokens() ([]pair, error) {
	var entries []tokenfile.Entry
	stock := map[string]*stockuser.DefaultInfo{}
	for i := range 10_000 {
		token := fmt.Sprintf("%032d", i)
		entries = append(entries, tokenfile.Entry{Token: token, User: user.Info{Name: "jane", UID: fmt.Sprint(i)}})
		stock[token] = &stockuser.DefaultInfo{Name: "jane", UID: fmt.Sprint(i)}
	}
	token := entries[5000].Token
	ours, err := tokenfile.New(entries)
	if err != nil {
		return nil, err
	}
	remembered, err := tokencache.New(tokencache.Config{Authenticator: ours, SuccessTTL: time.Hour})
	if err != nil {
		return nil, err
	}
	theirs := stocktokens.New(stock)
	kept := cache.New(theirs, false, time.Hour, 0)
	return []pair{
		{"static token, one of 10,000", asks(ours, bearing(token)), asksStock(bearertoken.New(theirs), bearing(token))},
		{"token that is remembered", asks(remembered, bearing(token)), asksStock(bearertoken.New(kept), bearing(token))},
	}, nil
}
