package planetest_test

import (
	"bytes"
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/planekit/planekit/admission/unsupported"
	"github.com/planekit/planekit/apiserver/flowcontrol/objects"
	"github.com/planekit/planekit/authz/rbac"
	"github.com/planekit/planekit/client"
	"github.com/planekit/planekit/plane/planetest"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// unserved lists the resources that policies and code name and the server does not have, as patterns
// of [path.Match] in which * matches a slash too.
var unserved = map[string]string{
	"*.extensions":                           "Kubernetes removed the group and kept the rules",
	"deployments/rollback.apps":              "Kubernetes removed the subresource and kept the rule",
	"bindings":                               "clients post to pods/binding",
	"componentstatuses":                      "deprecated since Kubernetes 1.19",
	"certificatesigningrequests*":            "nodeclient and selfnodeclient are names for authorization alone",
	"*.resource.k8s.io":                      "dynamic resource allocation is not implemented",
	"volumeattributesclasses.storage.k8s.io": "no volumes are modified",
	"leasecandidates.coordination.k8s.io":    "no leader is elected by a coordinator",
	"*.metrics.k8s.io":                       "metricsapi, or another server, has the group",
	"nodes/*":                                "a kubelet asks an authorizer about it",
	"*/finalizers*":                          "it stands for the right to block the deletion of an owner",
	"endpoints/restricted":                   "it stands for the right to name any address",
	"signers*":                               "it stands for the right to sign and to attest",
	"watch":                                  "the deprecated paths of watches begin with it",
	"groups":                                 "it stands for the right to impersonate",
	"userextras":                             "it stands for the right to impersonate",
	"resourceclaims":                         "dynamic resource allocation is not implemented",
	"resourceslices":                         "dynamic resource allocation is not implemented",
	"initializerconfigurations":              "a program with the plugin adds it",
}

// TestResourceNames checks that the resources that policies, tables and code name are served, and so
// are in the table of package kinds, or are in unserved.
func TestResourceNames(t *testing.T) {
	t.Parallel()
	served, words := servedResources(t, planetest.Start(t).Client())
	used := map[string]bool{}
	check := func(served map[string]bool, name, where string) {
		if served[name] {
			return
		}
		for pattern := range unserved {
			flat := strings.NewReplacer("/", ":")
			if ok, err := path.Match(flat.Replace(pattern), flat.Replace(name)); err != nil {
				t.Fatal(err)
			} else if ok {
				used[pattern] = true
				return
			}
		}
		t.Errorf("%s names %s, which is not served", where, name)
	}
	for name, where := range policyResources() {
		check(served, name, where)
	}
	for name, where := range codeResources(t) {
		check(words, name, where)
	}
	for pattern := range unserved {
		if !used[pattern] {
			t.Errorf("nothing names %s any more, or it is served", pattern)
		}
	}
}

// servedResources returns the resources and subresources that the server of api has, such as
// "pods/status" and "deployments.apps". For code that does not name the group, words has the plurals
// and singulars without it.
func servedResources(t *testing.T, api *client.Client) (served, words map[string]bool) {
	t.Helper()
	get := func(path string, into any) {
		answer, err := api.Do(t.Context(), client.Request{Path: path})
		if err == nil {
			err = json.Unmarshal(answer.Body, into)
		}
		if err != nil {
			t.Fatalf("GET %s: %v, want an answer as %T", path, err, into)
		}
	}
	var groups metav1.APIGroupList
	get("/apis", &groups)
	paths := map[string]string{"/api/v1": ""}
	for _, g := range groups.Groups {
		for _, v := range g.Versions {
			paths["/apis/"+v.GroupVersion] = g.Name
		}
	}
	served, words = map[string]bool{}, map[string]bool{}
	for path, group := range paths {
		var list metav1.APIResourceList
		get(path, &list)
		for _, r := range list.APIResources {
			served[schema.GroupResource{Group: group, Resource: r.Name}.String()] = true
			words[r.Name], words[strings.ToLower(r.Kind)] = true, true
		}
	}
	return served, words
}

// policyResources returns what RBAC, flow control and the table of fields without effect name, and
// where.
func policyResources() map[string]string {
	named := map[string]string{}
	add := func(where string, groups, resources []string) {
		for _, g := range groups {
			for _, r := range resources {
				if g != "*" && !strings.HasPrefix(r, "*") {
					named[schema.GroupResource{Group: g, Resource: r}.String()] = where
				}
			}
		}
	}
	addRules := func(role string, rules []rbacv1.PolicyRule) {
		for i := range rules {
			add("the role "+role, rules[i].APIGroups, rules[i].Resources)
		}
	}
	policy := rbac.Bootstrap{NodesByRole: true, ControllersAsOne: true}.Policy()
	for _, r := range policy.ClusterRoles {
		addRules(r.Name, r.Rules)
	}
	for _, r := range policy.Roles {
		addRules(r.Name, r.Rules)
	}
	for _, s := range slices.Concat(objects.Mandatory().Schemas, objects.Suggested().Schemas) {
		for i := range s.Spec.Rules {
			for _, r := range s.Spec.Rules[i].ResourceRules {
				add("the flow schema "+s.Name, r.APIGroups, r.Resources)
			}
		}
	}
	for _, row := range unsupported.Table() {
		if row.In != unsupported.Pods {
			named[row.In] = "the table of admission/unsupported"
		}
	}
	return named
}

var (
	// mentions are the texts of which a folder has at least one if literalResources finds a name there.
	mentions     = [][]byte{[]byte("Resource:"), []byte("Resource("), []byte("Resource ="), []byte("Resource !="), []byte("Resource {")}
	resourceName = regexp.MustCompile(`^[a-z]+(/[a-z]+)?$`)
)

// codeResources returns the names that the code of the module compares with, or puts into, fields
// and functions called Resource, without their groups, and where.
func codeResources(t *testing.T) map[string]string {
	t.Helper()
	files, named := token.NewFileSet(), map[string]string{}
	for _, folder := range goFolders(t) {
		var parsed []*ast.File
		wanted := false
		sources, err := filepath.Glob(filepath.Join(folder, "*.go"))
		if err != nil {
			t.Fatal(err)
		}
		texts := map[string][]byte{}
		for _, name := range sources {
			if strings.HasSuffix(name, "_test.go") {
				continue
			}
			if texts[name], err = os.ReadFile(name); err != nil {
				t.Fatal(err)
			}
			wanted = wanted || slices.ContainsFunc(mentions, func(m []byte) bool { return bytes.Contains(texts[name], m) })
		}
		for name, text := range texts {
			if !wanted {
				break
			}
			file, err := parser.ParseFile(files, name, text, parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			parsed = append(parsed, file)
		}
		for name, at := range literalResources(parsed) {
			named[name] = files.Position(at).String()
		}
	}
	return named
}

// goFolders returns the folders of the module but those of examples.
func goFolders(t *testing.T) (folders []string) {
	t.Helper()
	err := filepath.WalkDir("../..", func(path string, entry fs.DirEntry, err error) error {
		switch name := filepath.Base(path); {
		case err != nil || !entry.IsDir():
			return err
		case slices.Contains([]string{"bench", "compat", "examples", "testdata", "bin", "docs"}, name), name != ".." && strings.HasPrefix(name, "."):
			return filepath.SkipDir
		}
		folders = append(folders, path)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return folders
}

// literalResources returns the names of resources in the files of one package.
func literalResources(files []*ast.File) map[string]token.Pos {
	constants := constantsOf(files)
	named := map[string]token.Pos{}
	add := func(beside ast.Expr, values ...ast.Expr) {
		if !calledResource(beside) {
			return
		}
		for _, v := range values {
			s := literal(v)
			if name, ok := v.(*ast.Ident); ok {
				s = constants[name.Name]
			}
			if resourceName.MatchString(s) {
				named[s] = v.Pos()
			}
		}
	}
	for _, file := range files {
		ast.Inspect(file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.BinaryExpr:
				add(n.X, n.Y)
			case *ast.KeyValueExpr:
				add(n.Key, n.Value)
			case *ast.CallExpr:
				add(n.Fun, n.Args...)
			case *ast.AssignStmt:
				add(n.Lhs[0], n.Rhs...)
			case *ast.SwitchStmt:
				for _, s := range n.Body.List {
					add(n.Tag, s.(*ast.CaseClause).List...)
				}
			}
			return true
		})
	}
	return named
}

// constantsOf returns the texts of constants and variables by name.
func constantsOf(files []*ast.File) map[string]string {
	constants := map[string]string{}
	for _, file := range files {
		for _, d := range file.Decls {
			group, ok := d.(*ast.GenDecl)
			if !ok {
				continue
			}
			for _, spec := range group.Specs {
				if s, ok := spec.(*ast.ValueSpec); ok && len(s.Names) == len(s.Values) {
					for i, name := range s.Names {
						constants[name.Name] = literal(s.Values[i])
					}
				}
			}
		}
	}
	return constants
}

// literal returns the text of e, empty if it is none.
func literal(e ast.Expr) string {
	if l, ok := e.(*ast.BasicLit); ok && l.Kind == token.STRING {
		s, _ := strconv.Unquote(l.Value)
		return s
	}
	return ""
}

// calledResource reports whether e is a field or function called Resource.
func calledResource(e ast.Expr) bool {
	switch e := e.(type) {
	case *ast.Ident:
		return e.Name == "Resource"
	case *ast.SelectorExpr:
		return e.Sel.Name == "Resource"
	}
	return false
}
