package apiserver_test

import (
	"context"
	"net/url"
	"reflect"
	"strings"
	"testing"

	"github.com/planekit/planekit/apiserver/apiservertest"
	"github.com/planekit/planekit/authz"
)

// TestLongSelectors: an authorizer learns a selector of 16 KiB and no longer one,
// which allows no request. A request that is allowed without it is still narrowed by
// it.
func TestLongSelectors(t *testing.T) {
	var asked authz.Attributes
	decision := authz.Allow
	s := apiservertest.Start(t, apiservertest.WithResources(resources()...),
		apiservertest.WithAuthorizer(authz.Func(func(_ context.Context, attributes authz.Attributes) (authz.Decision, string, error) {
			asked = attributes
			return decision, "", nil
		})))
	a := &api{t, s.As("jane"), "http://memory"}
	a.create(configPath, configMap("there", ""))

	const longest = 16 << 10
	for _, c := range []struct {
		parameter, begin, fill, end string
		told                        func(fill string) authz.Attributes
	}{
		{"labelSelector", "a in (b", ",", ",c)", func(string) authz.Attributes {
			return authz.Attributes{Labels: []authz.Requirement{{Key: "a", Operator: authz.In, Values: []string{"", "b", "c"}}}}
		}},
		{"fieldSelector", "metadata.name=", "x", "", func(fill string) authz.Attributes {
			return authz.Attributes{Name: fill, Fields: []authz.Requirement{{Key: "metadata.name", Operator: authz.In, Values: []string{fill}}}}
		}},
	} {
		for _, size := range []int{longest - 1, longest, longest + 1, 4 * longest} {
			fill := strings.Repeat(c.fill, size-len(c.begin)-len(c.end))
			path := configPath + "?" + url.Values{c.parameter: {c.begin + fill + c.end}}.Encode()
			var want authz.Attributes
			if size <= longest {
				want = c.told(fill)
			}
			want.Verb, want.Version, want.Resource, want.Namespace = "list", "v1", "configmaps", "default"
			decision = authz.NoOpinion
			a.want(a.do("GET", path, ""), 403, "cannot list")
			if asked.User = nil; !reflect.DeepEqual(asked, want) {
				t.Errorf("%s of %d bytes: asked with name %.20q, fields %.80v and labels %.80v", c.parameter, size, asked.Name, asked.Fields, asked.Labels)
			}
			decision = authz.Allow
			a.want(a.do("GET", path, ""), 200, `"items":[]`)
		}
	}
}
