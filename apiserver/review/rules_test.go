package review_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/planekit/planekit/apiserver"
	"github.com/planekit/planekit/apiserver/apiservertest"
	"github.com/planekit/planekit/apiserver/review"
	"github.com/planekit/planekit/authn"
	"github.com/planekit/planekit/authn/user"
	"github.com/planekit/planekit/authz"
)

// lister allows everybody everything and lists a rule of its own for jane.
type lister struct{ authz.Func }

func (lister) RulesFor(_ context.Context, u *user.Info, namespace string) (authz.Rules, error) {
	if u.Name != "jane" || namespace != "a" {
		return authz.Rules{}, errors.New("wrong question")
	}
	return authz.Rules{
		Resources: []authz.ResourceRule{{Verbs: []string{"get"}, Groups: []string{"apps"}, Resources: []string{"deployments"}, Names: []string{"web"}}},
		Paths:     []authz.PathRule{{Verbs: []string{"get"}, Paths: []string{"/healthz"}}},
	}, errors.New("one role is gone")
}

func TestRules(t *testing.T) {
	may := authz.Chain{authz.Superusers("none"), lister{authorize}}
	s := apiservertest.Start(t, apiservertest.WithConfig(func(c *apiserver.Config) {
		c.Resources = review.Resources(authn.Func(authenticate), may)
		c.Authorizer = may
	}))
	for _, c := range []struct{ name, path, body, want string }{
		{"rules", "authorization.k8s.io/v1/selfsubjectrulesreviews", `{"spec":{"namespace":"a"}}`,
			`"metadata":{},"spec":{},"status":{"resourceRules":[{"verbs":["get"],"apiGroups":["apps"],"resources":["deployments"],"resourceNames":["web"]}],` +
				`"nonResourceRules":[{"verbs":["get"],"nonResourceURLs":["/healthz"]}],"incomplete":false,"evaluationError":"one role is gone"}`},
		{"named", "authorization.k8s.io/v1/subjectaccessreviews", `{"metadata":{"name":"x"},"spec":{"user":"a","resourceAttributes":{"verb":"get"}}}`,
			`metadata: Invalid value: {\"name\":\"x\"}: must be empty`},
		{"named self", "authorization.k8s.io/v1/selfsubjectaccessreviews", `{"metadata":{"labels":{"a":"b"}},"spec":{"resourceAttributes":{"verb":"get"}}}`,
			`metadata: Invalid value: {\"labels\":{\"a\":\"b\"}}: must be empty`},
		{"named local", "authorization.k8s.io/v1/namespaces/a/localsubjectaccessreviews", `{"metadata":{"name":"x"},"spec":{"user":"a","resourceAttributes":{"verb":"get","namespace":"a"}}}`,
			`metadata: Invalid value: {\"name\":\"x\",\"namespace\":\"a\"}: must be empty except for namespace`},
		{"managed", "authorization.k8s.io/v1/selfsubjectaccessreviews", `{"metadata":{"managedFields":[{"manager":"x"}]},"spec":{"resourceAttributes":{"verb":"get"}}}`,
			`"status":{"allowed":false}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			if !json.Valid([]byte(c.body)) {
				t.Fatal("bad test")
			}
			response, err := s.As("jane").Post("http://memory/apis/"+c.path, "application/json", strings.NewReader(c.body))
			if err != nil {
				t.Fatal(err)
			}
			defer response.Body.Close()
			got, err := io.ReadAll(response.Body)
			if err != nil || !strings.Contains(string(got), c.want) {
				t.Errorf("got %s, %v, want %s", got, err, c.want)
			}
		})
	}
}
