package tokenrequest_test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/planekit/planekit/apiserver"
	"github.com/planekit/planekit/apiserver/audit"
	"github.com/planekit/planekit/apiserver/tokenrequest"
	authenticationv1 "k8s.io/api/authentication/v1"
)

// line holds the fields of an audit event that the tests read.
type line struct {
	Verb           string
	ObjectRef      struct{ Resource, Subresource, Name string }
	User           struct{ Extra map[string][]string }
	ResponseStatus struct{ Code int }
	Annotations    map[string]string
	ResponseObject any
}

// TestAuditTellsTokensApart: the event of a request for a token has the ID that
// the events of those requests have which are made with it.
func TestAuditTellsTokensApart(t *testing.T) {
	policy, err := audit.ParsePolicy([]byte("apiVersion: audit.k8s.io/v1\nkind: Policy\nomitStages: [RequestReceived]\nrules: [{level: RequestResponse}]"))
	if err != nil {
		t.Fatal(err)
	}
	reader, writer := io.Pipe()
	log, err := audit.New(audit.Config{Policy: policy, Out: writer})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- log.Run(ctx)
		writer.Close()
	}()
	var lines []line
	read := make(chan error, 1)
	go func() {
		for events := json.NewDecoder(reader); ; {
			var l line
			if err := events.Decode(&l); err != nil {
				read <- err
				return
			}
			lines = append(lines, l)
		}
	}()
	c := startCluster(t, func(config *apiserver.Config) { config.Auditor = log })
	c.admin("POST", core+"serviceaccounts", `{"apiVersion":"v1","kind":"ServiceAccount","metadata":{"name":"web"}}`)
	first, second := c.token(""), c.token("")
	for _, token := range []string{first, second} {
		if code, u := c.whoami(token); code != 201 || len(u.Extra["authentication.kubernetes.io/credential-id"]) != 1 {
			t.Errorf("whoami = %d %+v, want 201 and one credential-id", code, u)
		}
	}
	c.do(c.server.Client(), "POST", core+"serviceaccounts/web/token", `{"apiVersion":"authentication.k8s.io/v1","kind":"TokenRequest","spec":{"expirationSeconds":1}}`)
	stop()
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	if err := <-read; err != io.EOF {
		t.Fatal(err)
	}
	var issued, used []string
	for _, l := range lines {
		id, told := l.Annotations["authentication.kubernetes.io/issued-credential-id"]
		switch {
		case l.ObjectRef.Subresource == "token":
			if told != (l.ResponseStatus.Code == 201) || l.ResponseObject != nil {
				t.Errorf("the event of a TokenRequest = %+v, want issued-credential-id only with the code 201, and no object", l)
			}
			if told {
				issued = append(issued, id)
			}
		case told:
			t.Errorf("nothing was issued: %+v", l)
		case l.ObjectRef.Resource == "selfsubjectreviews":
			used = append(used, l.User.Extra["authentication.kubernetes.io/credential-id"]...)
		}
	}
	if len(issued) != 2 || issued[0] == issued[1] || strings.Join(issued, " ") != strings.Join(used, " ") || !strings.HasPrefix(issued[0], "JTI=") {
		t.Errorf("issued %v, used %v", issued, used)
	}
}

// TestShortenedIsWarnedOf: kubectl shows what the answer says in a number.
func TestShortenedIsWarnedOf(t *testing.T) {
	long := config()
	long.MaxExpiration = 2 * time.Hour
	if _, err := ask(long, jane, seconds(86400)); err != nil { // without an audit
		t.Fatal(err)
	}
	c := startCluster(t, nil, func(config *tokenrequest.Config) { config.MaxExpiration = 2 * time.Hour })
	c.admin("POST", core+"serviceaccounts", `{"apiVersion":"v1","kind":"ServiceAccount","metadata":{"name":"web"}}`)
	for body, want := range map[string]string{
		`{"expirationSeconds":86400}`: `299 - "requested expiration of 86400 seconds shortened to 7200 seconds"`,
		`{"expirationSeconds":7200}`:  "",
	} {
		response, err := c.server.Client().Post(c.server.URL+core+"serviceaccounts/web/token", "application/json",
			strings.NewReader(`{"apiVersion":"authentication.k8s.io/v1","kind":"TokenRequest","spec":`+body+`}`))
		if err != nil {
			t.Fatal(err)
		}
		var answer authenticationv1.TokenRequest
		err = json.NewDecoder(response.Body).Decode(&answer)
		response.Body.Close()
		if err != nil || response.StatusCode != http.StatusCreated || response.Header.Get("Warning") != want ||
			answer.Spec.ExpirationSeconds == nil || *answer.Spec.ExpirationSeconds != 7200 {
			t.Errorf("POST of %s = %s %v with the warning %q, %v, want 201, 7200 seconds and the warning %q",
				body, response.Status, &answer.Spec, response.Header.Get("Warning"), err, want)
		}
	}
}
