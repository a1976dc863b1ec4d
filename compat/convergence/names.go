package convergence

import (
	"cmp"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// names gives what is chosen at random, or by a hash, or by the clock, a name by
// its role: the same on every side. It replaces them wherever they stand, in
// names, references, labels, messages.
//
//   - UIDs become uid(Kind/name).
//   - The hash of a ReplicaSet's template becomes {image}, with a number where
//     several templates have the same image.
//   - Pods become OWNER-POD, those of indexed jobs OWNER-INDEX-POD; their addresses
//     {ip of OWNER-POD}.
//   - EndpointSlices become SERVICE-SLICE, addresses of services {ip of SERVICE}.
//   - Secrets with generated names of an account become ACCOUNT-SECRET.
//   - Times become {time}, and tokens of accounts {token}.
type names struct {
	replace *strings.Replacer
}

// token is something that is called otherwise.
type token struct{ have, want string }

// namesOf gives names to what was ever in a room. history is in order of
// appearance.
func namesOf(history []*unstructured.Unstructured) names {
	var hashes, objects, uids []token
	hashes = templateHashes(history)
	byHash := replacer(hashes)
	roles := map[string]string{} // kind/name to role
	for _, u := range history {
		role := roleOf(u, byHash, roles)
		roles[u.GetKind()+"/"+u.GetName()] = role
		if u.GetKind() == "Event" {
			continue
		}
		if role != u.GetName() {
			objects = append(objects, token{u.GetName(), role})
		}
		uids = append(uids, token{string(u.GetUID()), fmt.Sprintf("uid(%s/%s)", u.GetKind(), role)})
		objects = append(objects, addresses(u, role)...)
	}
	return names{replacer(slices.Concat(hashes, objects, uids))}
}

// replacer replaces tokens, longer ones first where one begins as another does.
func replacer(tokens []token) *strings.Replacer {
	slices.SortFunc(tokens, func(a, b token) int {
		return cmp.Or(len(b.have)-len(a.have), strings.Compare(a.have, b.have))
	})
	var pairs []string
	for _, t := range tokens {
		if t.have != "" {
			pairs = append(pairs, t.have, t.want)
		}
	}
	return strings.NewReplacer(pairs...)
}

const hashLabel = "pod-template-hash"

// templateHashes calls the hashes of templates by their images.
func templateHashes(history []*unstructured.Unstructured) []token {
	var out []token
	used := map[string]string{} // name to template
	for _, u := range history {
		hash := u.GetLabels()[hashLabel]
		if u.GetKind() != "ReplicaSet" || hash == "" {
			continue
		}
		template, _, _ := unstructured.NestedMap(u.Object, "spec", "template")
		unstructured.RemoveNestedField(template, "metadata", "labels", hashLabel)
		whole, err := json.Marshal(template)
		if err != nil {
			panic(err) // it came as JSON
		}
		containers, _, _ := unstructured.NestedSlice(template, "spec", "containers")
		image := containers[0].(map[string]any)["image"]
		name := fmt.Sprintf("{%v}", image)
		for i := 2; used[name] != "" && used[name] != string(whole); i++ {
			name = fmt.Sprintf("{%v#%d}", image, i)
		}
		used[name] = string(whole)
		out = append(out, token{hash, name})
	}
	return out
}

// roleOf is the name of an object that has been given the same on every side.
// roles are those of the objects before it.
func roleOf(u *unstructured.Unstructured, byHash *strings.Replacer, roles map[string]string) string {
	name := byHash.Replace(u.GetName())
	switch u.GetKind() {
	case "Pod":
		if u.GetGenerateName() == "" && len(u.GetOwnerReferences()) == 0 {
			return name
		}
		owner := strings.TrimSuffix(u.GetGenerateName(), "-")
		for _, o := range u.GetOwnerReferences() {
			owner = o.Name
			if role := roles[o.Kind+"/"+o.Name]; role != "" {
				owner = role
			}
		}
		if index, ok := u.GetAnnotations()["batch.kubernetes.io/job-completion-index"]; ok {
			return byHash.Replace(owner) + "-" + index + "-POD"
		}
		return byHash.Replace(owner) + "-POD"
	case "EndpointSlice":
		return u.GetLabels()["kubernetes.io/service-name"] + "-SLICE"
	}
	return name
}

// addresses are the addresses of a pod or a service.
func addresses(u *unstructured.Unstructured, role string) []token {
	var ip string
	switch u.GetKind() {
	case "Pod":
		ip, _, _ = unstructured.NestedString(u.Object, "status", "podIP")
	case "Service":
		ip, _, _ = unstructured.NestedString(u.Object, "spec", "clusterIP")
	}
	if ip == "" || ip == "None" {
		return nil
	}
	return []token{{ip, "{ip of " + role + "}"}}
}

var (
	times     = regexp.MustCompile(`\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z`)
	apiAccess = regexp.MustCompile(`\bkube-api-access-[a-z0-9]{5}\b`)
)

// text replaces in a string.
func (n names) text(s string) string {
	s = n.replace.Replace(s)
	s = times.ReplaceAllString(s, "{time}")
	return apiAccess.ReplaceAllString(s, "kube-api-access-{}")
}

// value replaces in all strings of a value as JSON has it, keys of maps included.
func (n names) value(v any) any {
	switch v := v.(type) {
	case string:
		return n.text(v)
	case []any:
		out := make([]any, len(v))
		for i := range v {
			out[i] = n.value(v[i])
		}
		return out
	case map[string]any:
		out := make(map[string]any, len(v))
		for key, value := range v {
			out[n.text(key)] = n.value(value)
		}
		return out
	}
	return v
}
