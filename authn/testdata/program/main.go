// Program is the smallest server that authenticates users by certificates, tokens and passwords. A
// test measures its dependencies and size.
package main

import (
	stdx509 "crypto/x509"
	"net/http"
	"os"

	"github.com/planekit/planekit/authn"
	"github.com/planekit/planekit/authn/anonymous"
	"github.com/planekit/planekit/authn/basicauth"
	"github.com/planekit/planekit/authn/bootstraptoken"
	"github.com/planekit/planekit/authn/reload"
	"github.com/planekit/planekit/authn/requestheader"
	"github.com/planekit/planekit/authn/tokencache"
	"github.com/planekit/planekit/authn/tokenfile"
	"github.com/planekit/planekit/authn/x509"
)

func main() {
	tokens, err1 := reload.New(reload.Config[*tokenfile.Authenticator]{
		Read: func() ([]byte, error) { return os.ReadFile("tokens.csv") }, Parse: tokenfile.Read,
	})
	roots := stdx509.NewCertPool()
	certificates, err2 := x509.New(x509.Config{Roots: roots})
	proxies, err3 := requestheader.New(requestheader.Config{Roots: roots, AllowedNames: []string{"proxy"}})
	passwords, err4 := basicauth.New(nil)
	joining, err5 := bootstraptoken.New(bootstraptoken.Config{})
	cached, err6 := tokencache.New(tokencache.Config{Authenticator: joining})
	for _, err := range []error{err1, err2, err3, err4, err5, err6} {
		if err != nil {
			println(err.Error())
			os.Exit(1)
		}
	}
	chain := authn.Chain{proxies, certificates, reload.Authenticator(tokens), passwords, cached, anonymous.Authenticator{}}
	http.ListenAndServe("127.0.0.1:0", authn.Handler(http.NotFoundHandler(), chain))
}
