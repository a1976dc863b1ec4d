package identity

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
)

// A line is one line of a request's header.
type line struct{ name, value string }

// userLines say who the user is, as a front proxy says it, in right and wrong ways.
var userLines = [][]line{
	nil,
	{{"X-Remote-User", "jane"}},
	{{"x-remote-user", "jane"}},
	{{"X-Remote-User", ""}},
	{{"X-Remote-User", " jane "}},
	{{"X-Remote-User", "jane"}, {"X-Remote-User", "root"}},
	{{"X-Remote-User", ""}, {"X-Remote-User", "root"}},
	{{"X-Remote-User", "system:admin"}},
	{{"X-Remote-User", "system:anonymous"}},
	{{"X-Remote-User", "system:node:node-1"}},
	{{"X-Remote-User", "system:serviceaccount:default:default"}},
	{{"X-Remote-User", "zo\xeb"}},
	{{"X_Remote_User", "jane"}},
	{{"X-Remote-User", "impersonator"}},
	{{"X-Remote-User", "constrained"}},
	{{"X-Remote-User", "impersonator"}, {"X-Remote-Group", "system:masters"}},
	{{"X-Remote-Group", "system:masters"}},
	{{"X-Remote-Uid", "7"}},
}

// moreLines say more of the user.
var moreLines = [][]line{
	nil,
	{{"X-Remote-Group", "devs"}},
	{{"X-Remote-Group", "devs"}, {"X-Remote-Group", "ops"}, {"X-Remote-Group", "devs"}},
	{{"X-Remote-Group", "devs, ops"}},
	{{"X-Remote-Group", ""}},
	{{"X-Remote-Group", "system:masters"}},
	{{"X-Remote-Group", "system:authenticated"}},
	{{"X-Remote-Group", "system:unauthenticated"}},
	{{"X-Remote-Uid", "7"}},
	{{"X-Remote-Uid", "7"}, {"X-Remote-Uid", "8"}},
	{{"X-Remote-Uid", ""}},
	{{"X-Remote-Extra-Scopes", "x"}},
	{{"X-Remote-Extra-Scopes", "x"}, {"X-Remote-Extra-Scopes", "y"}},
	{{"X-Remote-Extra-scopes", "x"}, {"X-Remote-Extra-SCOPES", "y"}},
	{{"X-Remote-Extra-Example.com%2fscopes", "x"}},
	{{"X-Remote-Extra-example.com%2Fscopes", "x"}, {"X-Remote-Extra-Example.com%2fScopes", "y"}},
	{{"X-Remote-Extra-%zz", "x"}},
	{{"X-Remote-Extra-%", "x"}},
	{{"X-Remote-Extra-%c3%28", "x"}},
	{{"X-Remote-Extra-", "x"}},
	{{"X-Remote-Extra-Scopes", ""}},
	{{"X-Remote-Extra-Authentication.kubernetes.io%2fcredential-id", "x"}},
	{{"X-Remote-Extra-Authentication.kubernetes.io%2fnode-name", "node-1"}},
	{{"X-Remote-Extra-A+b", "x"}},
	{{"X-Remote-Extra-K%u0061", "x"}},
}

// impersonations are lines of impersonation headers.
var impersonations = [][]line{
	nil,
	{{"Impersonate-User", "alice"}},
	{{"impersonate-user", "alice"}},
	{{"Impersonate-User", "bob"}},
	{{"Impersonate-User", ""}},
	{{"Impersonate-User", " alice"}},
	{{"Impersonate-User", "alice"}, {"Impersonate-User", "bob"}},
	{{"Impersonate-User", "system:anonymous"}},
	{{"Impersonate-User", "system:admin"}},
	{{"Impersonate-User", "system:serviceaccount:default:robot"}},
	{{"Impersonate-User", "system:serviceaccount:default:other"}},
	{{"Impersonate-User", "system:serviceaccount:default"}},
	{{"Impersonate-User", "system:serviceaccount::"}},
	{{"Impersonate-User", "system:serviceaccount:a:b:c"}},
	{{"Impersonate-User", "system:serviceaccount:default:Robot"}},
	{{"Impersonate-User", "system:node:node-1"}},
	{{"Impersonate-Group", "devs"}},
	{{"Impersonate-Uid", "7"}},
	{{"Impersonate-Extra-Scopes", "x"}},
	{{"Impersonate-Anything", "x"}},
	{{"Impersonate", "alice"}},
}

// impersonated are further lines of impersonation headers.
var impersonated = [][]line{
	nil,
	{{"Impersonate-Group", "devs"}},
	{{"Impersonate-Group", "devs"}, {"Impersonate-Group", "devs"}},
	{{"Impersonate-Group", "ops"}},
	{{"Impersonate-Group", "devs, ops"}},
	{{"Impersonate-Group", ""}},
	{{"Impersonate-Group", "system:masters"}},
	{{"Impersonate-Group", "system:authenticated"}},
	{{"Impersonate-Group", "system:unauthenticated"}},
	{{"Impersonate-Group", "devs"}, {"Impersonate-Group", "system:masters"}},
	{{"Impersonate-Uid", "7"}},
	{{"Impersonate-Uid", "8"}},
	{{"Impersonate-Uid", ""}},
	{{"Impersonate-Uid", "7"}, {"Impersonate-Uid", "8"}},
	{{"Impersonate-Extra-Scopes", "x"}},
	{{"Impersonate-Extra-scopes", "x"}, {"Impersonate-Extra-SCOPES", "z"}},
	{{"Impersonate-Extra-Scopes", "z"}},
	{{"Impersonate-Extra-Scopes", ""}},
	{{"Impersonate-Extra-Example.com%2fscopes", "x"}},
	{{"Impersonate-Extra-%zz", "x"}},
	{{"Impersonate-Extra-", "x"}},
	{{"Impersonate-Extra-%00", "x"}},
	{{"X-Remote-User", "root"}},
	{{"X-Remote-Group", "system:masters"}},
	{{"Authorization", "Bearer wrong"}},
	{{"Authorization", "Basic amFuZTp4"}},
	{{"Connection", "X-Remote-User, Impersonate-User"}},
}

// grants are RBAC objects: "impersonator" may impersonate alice and more users, "constrained" may do so for
// SelfSubjectReviews, and an agent may impersonate its own node.
var grants = []struct{ path, body string }{
	{"clusterroles", `{"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "impersonator"}, "rules": [
		{"apiGroups": [""], "resources": ["users"], "verbs": ["impersonate"], "resourceNames": ["alice", "system:anonymous", "system:node:node-1"]},
		{"apiGroups": [""], "resources": ["groups"], "verbs": ["impersonate"], "resourceNames": ["devs", "system:authenticated", "system:unauthenticated"]},
		{"apiGroups": [""], "resources": ["serviceaccounts"], "verbs": ["impersonate"], "resourceNames": ["robot"]},
		{"apiGroups": ["authentication.k8s.io"], "resources": ["uids"], "verbs": ["impersonate"], "resourceNames": ["7"]},
		{"apiGroups": ["authentication.k8s.io"], "resources": ["userextras/scopes", "userextras/example.com/scopes"], "verbs": ["impersonate"], "resourceNames": ["x"]}]}`},
	{"clusterroles", `{"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "constrained"}, "rules": [
		{"apiGroups": ["authentication.k8s.io"], "resources": ["users"], "verbs": ["impersonate:user-info"], "resourceNames": ["alice", "system:anonymous", "system:serviceaccount:a:b:c"]},
		{"apiGroups": ["authentication.k8s.io"], "resources": ["groups"], "verbs": ["impersonate:user-info"]},
		{"apiGroups": ["authentication.k8s.io"], "resources": ["uids"], "verbs": ["impersonate:user-info"], "resourceNames": ["7"]},
		{"apiGroups": ["authentication.k8s.io"], "resources": ["userextras/*"], "verbs": ["impersonate:user-info"]},
		{"apiGroups": ["authentication.k8s.io"], "resources": ["serviceaccounts"], "verbs": ["impersonate:serviceaccount"], "resourceNames": ["robot"]},
		{"apiGroups": ["authentication.k8s.io"], "resources": ["nodes"], "verbs": ["impersonate:arbitrary-node"], "resourceNames": ["node-1"]},
		{"apiGroups": ["authentication.k8s.io"], "resources": ["selfsubjectreviews"], "verbs": ["impersonate-on:user-info:create", "impersonate-on:serviceaccount:create", "impersonate-on:arbitrary-node:create"]}]}`},
	{"clusterroles", `{"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "agent"}, "rules": [
		{"apiGroups": ["authentication.k8s.io"], "resources": ["nodes"], "verbs": ["impersonate:associated-node"], "resourceNames": ["*"]},
		{"apiGroups": ["authentication.k8s.io"], "resources": ["selfsubjectreviews"], "verbs": ["impersonate-on:associated-node:create"]}]}`},
	{"clusterrolebindings", bound("impersonator", "impersonator")},
	{"clusterrolebindings", bound("constrained", "constrained")},
	{"clusterrolebindings", bound("agent", "system:serviceaccount:default:default")},
}

// bound is a binding of the role to the user of that name.
func bound(role, name string) string {
	return `{"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": "` + role + `"},
		"roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "` + role + `"},
		"subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "` + name + `"}]}`
}

// headers lists what the lines above make: each alone, and n of their products.
func headers(seed uint64, n int) (all [][]line) {
	tables := [][][]line{userLines, moreLines, impersonations, impersonated}
	for i, table := range tables {
		for _, lines := range table {
			for _, name := range []string{"impersonator", "constrained"} {
				base := []line{{"X-Remote-User", name}}
				switch i {
				case 0:
					base = nil
				case 3:
					base = append(base, line{"Impersonate-User", "alice"})
				}
				all = append(all, append(base, lines...))
			}
		}
	}
	agent := []line{{"X-Remote-User", "system:serviceaccount:default:default"}, {"X-Remote-Extra-Authentication.kubernetes.io%2fnode-name", "node-1"}}
	for _, lines := range [][]line{
		{{"Impersonate-User", "system:node:node-1"}}, {{"Impersonate-User", "system:node:node-2"}}, {{"Impersonate-User", "system:node:NODE-1"}},
		{{"Impersonate-User", "system:node:node-1"}, {"Impersonate-Group", "system:nodes"}}, {{"Impersonate-User", "system:node:node-1"}, {"Impersonate-Uid", "7"}},
		{{"X-Remote-Extra-Authentication.kubernetes.io%2fnode-name", "node-2"}, {"Impersonate-User", "system:node:node-2"}},
		{{"X-Remote-Extra-Other", "x"}, {"Impersonate-User", "system:node:node-1"}},
	} {
		all = append(all, append(slices.Clone(agent), lines...))
	}
	many := []line{{"X-Remote-User", "constrained"}, {"Impersonate-User", "alice"}}
	for _, group := range []string{"a", "b", "c", "d", "e"} {
		many = append(many, line{"Impersonate-Group", group}, line{"Impersonate-Extra-Example.com%2f" + group, group})
	}
	all = append(all, many, append(slices.Clone(many), line{"Impersonate-Group", "system:masters"}), append(slices.Clone(many), line{"Impersonate-Extra-Plain", "x"}))
	random := rand.New(rand.NewPCG(seed, 1))
	for range n {
		var lines []line
		for _, table := range tables {
			lines = append(lines, table[random.IntN(len(table))]...)
		}
		all = append(all, lines)
	}
	return all
}

// authorizations are spellings of the header with a token.
func authorizations(token string) (all [][]line) {
	for _, format := range []string{"Bearer %s", "bearer %s", "BEARER %s", "Bearer  %s", "Bearer\t%s", " Bearer %s ", "Bearer %s x", "Bearer:%s", "Bearer", "Bearer ", "%s", "Token %s", "Bearer %s,", "Bearer \"%s\"", "Basic %s", "Negotiate %s"} {
		all = append(all, []line{{"Authorization", strings.Replace(format, "%s", token, 1)}})
	}
	right := "Bearer " + token
	return append(all, []line{{"Authorization", right}, {"Authorization", right}}, []line{{"Authorization", "Bearer wrong"}, {"Authorization", right}},
		[]line{{"Authorization", right}, {"Authorization", "Bearer wrong"}}, []line{{"Authorization", ""}, {"Authorization", right}}, []line{{"authorization", right}},
		[]line{{"Authorization", right}, {"X-Remote-User", "root"}}, []line{{"Authorization", right}, {"Impersonate-User", "alice"}},
		[]line{{"Proxy-Authorization", right}}, []line{{"Cookie", "token=" + token}}, []line{{"Authorization", right}, {"Cookie", "token=x"}})
}

func shown(lines []line) string {
	var out []string
	for _, l := range lines {
		out = append(out, fmt.Sprintf("%s: %.80q", l.name, l.value))
	}
	return strings.Join(out, "; ")
}
