package authn_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/planekit/planekit/authn"
	"github.com/planekit/planekit/authn/anonymous"
	"github.com/planekit/planekit/authn/tokenfile"
	"github.com/planekit/planekit/authn/user"
)

func Example() {
	entries, err := tokenfile.Parse(strings.NewReader(`s3cret,jane,1,"dev,ops"`))
	if err != nil {
		fmt.Println(err)
		return
	}
	tokens, err := tokenfile.New(entries)
	if err != nil {
		fmt.Println(err)
		return
	}
	chain := authn.Chain{tokens, anonymous.Authenticator{}}

	server := authn.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		u, _ := user.FromContext(r.Context())
		fmt.Fprintln(w, u.Name, u.Groups)
	}), chain)

	for _, header := range []string{"", "Bearer s3cret", "Bearer guess"} {
		r := httptest.NewRequest("GET", "/", nil)
		if header != "" {
			r.Header.Set("Authorization", header)
		}
		w := httptest.NewRecorder()
		server.ServeHTTP(w, r)
		fmt.Print(w.Code, " ", w.Body)
	}
	// Output:
	// 200 system:anonymous [system:unauthenticated]
	// 200 jane [dev ops system:authenticated]
	// 401 {"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"Unauthorized","reason":"Unauthorized","code":401}
}
