package abac_test

import (
	"bytes"
	"errors"
	"io"
	"reflect"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/planekit/planekit/authn/user"
	"github.com/planekit/planekit/authz"
	"github.com/planekit/planekit/authz/abac"
)

const v1beta1 = `"apiVersion":"abac.authorization.kubernetes.io/v1beta1","kind":"Policy"`

func TestParse(t *testing.T) {
	for file, want := range map[string][]abac.Policy{
		"":                                nil,
		"\n  \n\t\n# {\n   # {\"user\"\n": nil,
		"{" + v1beta1 + "}":               {{}},
		"{" + v1beta1 + `,"spec":null}`:   {{}},
		"{" + v1beta1 + `,"spec":{"user":"a","group":null}}` + "\r\n\r\n  {" + v1beta1 + `,"spec":{"group":"g","readonly":true,"apiGroup":"apps","resource":"r","namespace":"n","nonResourcePath":"/p"}}  `: {
			{User: "a"}, {Group: "g", ReadOnly: true, APIGroup: "apps", Resource: "r", Namespace: "n", Path: "/p"},
		},
		`{}`: {{Group: user.Authenticated, APIGroup: "*", Namespace: "*", Resource: "*", Path: "*"}},
		`{"user":"a","namespace":"n","readonly":true}`: {{User: "a", ReadOnly: true, APIGroup: "*", Namespace: "n", Resource: "*"}},
		`{"kind":"Policy","user":"a","resource":"r"}`:  {{User: "a", APIGroup: "*", Namespace: "*", Resource: "r"}},
		`{"group":"g","resource":"r"}`:                 {{Group: "g", APIGroup: "*", Namespace: "*", Resource: "r"}},
	} {
		got, err := abac.Parse(strings.NewReader(file))
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("Parse(%q) = %+v, %v, want %+v", file, got, err, want)
		}
	}
}

func TestParseRefuses(t *testing.T) {
	for line, want := range map[string]string{
		`{"user":"a"`:                             "unexpected EOF",
		`{"user":"a",}`:                           "invalid character",
		`{user:"a"}`:                              "invalid character",
		`{1:"a"}`:                                 "invalid character",
		`null`:                                    "not a JSON object",
		`[]`:                                      "not a JSON object",
		`"user"`:                                  "not a JSON object",
		`user: a`:                                 "invalid character",
		`{"user":"a"} {"user":"b"}`:               "something after",
		`{"user":"a"}# comment`:                   "something after",
		`{"user":1}`:                              `field "user"`,
		`{"readonly":"true"}`:                     `field "readonly"`,
		`{"user":"a","user":"b"}`:                 `field "user" is there twice`,
		`{"User":"a"}`:                            `unknown field "User"`,
		`{"user":"a","apiGroup":"apps"}`:          `unknown field "apiGroup"`,
		`{"spec":{"user":"a"}}`:                   `unknown field "spec"`,
		`{"kind":"Pod","user":"a"}`:               `kind "Pod" are not`,
		`{"apiVersion":"v1","user":"a"}`:          `apiVersion "v1"`,
		"{" + v1beta1 + `,"user":"a"}`:            `unknown field "user"`,
		"{" + v1beta1 + `,"spec":[]}`:             "spec: not a JSON object",
		"{" + v1beta1 + `,"spec":{"a":1}}`:        `spec: unknown field "a"`,
		"{" + v1beta1 + `,"spec":{"readonly":1}}`: `spec: field "readonly"`,
		"{\"user\":\"\xff\"}":                     "not UTF-8",
		`{"user":"` + strings.Repeat("a", 70_000) + `"}`: "token too long",
		"\ufeff{}": "invalid character",
	} {
		got, err := abac.Parse(strings.NewReader("{}\n# comment\n\n" + line + "\n{}\n"))
		if err == nil || got != nil || !strings.HasPrefix(err.Error(), "policy file: line 4: ") || !strings.Contains(err.Error(), want) {
			t.Errorf("%.60q: %+v, %v, want %s", line, got, err, want)
		}
	}
	broken := errors.New("broken")
	if got, err := abac.Parse(io.MultiReader(strings.NewReader("{}\n"), iotest.ErrReader(broken))); got != nil || !errors.Is(err, broken) {
		t.Errorf("a reader that fails: %+v, %v", got, err)
	}
}

// FuzzParse checks that policies decide like a plain interpretation of them, and allow nothing that
// no policy names.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{"", "{}", "#\n\n{}", `{"user":"a","resource":"pods"}`, "{" + v1beta1 + `,"spec":{"user":"a","namespace":"*","resource":"*","apiGroup":"*"}}`,
		"{" + v1beta1 + `,"spec":{"group":"g","nonResourcePath":"/a/*","readonly":true}}`, `{"user":"a"`, `{"spec":{}}`} {
		f.Add([]byte(seed), "a", "g", "get", "n", "pods", "/a/b")
	}
	f.Fuzz(func(t *testing.T, file []byte, name, group, verb, namespace, resource, path string) {
		policies, err := abac.Parse(bytes.NewReader(file))
		if err != nil {
			if policies != nil || !strings.HasPrefix(err.Error(), "policy file: line ") {
				t.Fatalf("Parse(%q) = %+v, %v, want no policies and an error that names a line", file, policies, err)
			}
			return
		}
		may := abac.New(policies)
		u := &user.Info{Name: name, Groups: []string{group}}
		for _, at := range []authz.Attributes{
			{User: u, Verb: verb, Namespace: namespace, Resource: resource + "s"},
			{User: u, Verb: verb, Path: path},
		} {
			decision, _, err := may.Authorize(t.Context(), at)
			if want := anyMatches(policies, at); (decision == authz.Allow) != want || err != nil {
				t.Fatalf("%+v by %+v under %q: %v %v", at, u, file, decision, err)
			}
		}
		if d, _, _ := may.Authorize(t.Context(), authz.Attributes{Verb: verb, Resource: "pods"}); d == authz.Allow {
			t.Fatal("nobody is allowed something")
		}
	})
}
