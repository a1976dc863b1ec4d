package walk

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// aspects are the parts of a response that are compared, by name.
type aspects map[string]string

// headers lists the headers that are compared.
var headers = []string{"Content-Type", "Warning", "Cache-Control", "Allow", "Location", "Retry-After", "X-Content-Type-Options", "Www-Authenticate"}

// aspectsOf takes a response apart.
func aspectsOf(r request, a answer) aspects {
	all := aspects{"code": fmt.Sprint(a.code)}
	for _, name := range headers {
		if values := a.header.Values(name); len(values) > 0 {
			all["header "+name] = strings.Join(values, "\n")
		}
	}
	if len(a.body) == 0 {
		all["body"] = "empty"
		return all
	}
	if strings.HasPrefix(r.path, "/openapi") || r.path == "/metrics" {
		return all // other tests compare them
	}
	found, ok, err := documents(a.header.Get("Content-Type"), a.body)
	switch {
	case err != nil:
		all["body"] = err.Error()
	case !ok:
		all["body"] = fmt.Sprintf("%.1000s", a.body)
	case strings.HasPrefix(a.header.Get("Content-Type"), "application/json"):
		all["indented"] = fmt.Sprint(indented(a.body))
		all["line end"] = fmt.Sprint(a.body[len(a.body)-1] == '\n')
	}
	if len(found) == 1 && !watches(found[0]) {
		all.flatten("", tidy(found[0]))
		return all
	}
	for i, v := range events(found) {
		all.flatten(fmt.Sprint("event ", i), v)
	}
	return all
}

// watches reports whether v is an event of a watch.
func watches(v any) bool {
	m, _ := v.(map[string]any)
	_, typed := m["type"].(string)
	return typed && m["object"] != nil && len(m) == 2
}

// events drops those about objects of the server itself, and what goes with them: bookmarks.
func events(all []any) (kept []any) {
	for _, v := range all {
		m, ok := v.(map[string]any)
		if !ok {
			kept = append(kept, v)
			continue
		}
		object, _ := m["object"].(map[string]any)
		if m["type"] == "BOOKMARK" {
			metadata, _ := object["metadata"].(map[string]any)
			if metadata["annotations"] == nil {
				continue
			}
		} else if rows, ok := object["rows"].([]any); ok {
			if object["rows"] = slices.DeleteFunc(rows, foreign); len(object["rows"].([]any)) == 0 {
				continue
			}
		} else if m["type"] != "ERROR" && foreign(object) {
			continue
		}
		kept = append(kept, map[string]any{"type": m["type"], "object": tidy(object)})
	}
	slices.SortStableFunc(kept, func(a, b any) int { return strings.Compare(sortKey(a), sortKey(b)) })
	return kept
}

func sortKey(v any) string {
	m, _ := v.(map[string]any)
	object, _ := m["object"].(map[string]any)
	metadata, _ := object["metadata"].(map[string]any)
	return fmt.Sprint(m["type"], metadata["name"])
}

// foreign reports an object, or the row of one, that the walk has not made.
func foreign(v any) bool {
	m, ok := v.(map[string]any)
	if !ok {
		return false
	}
	if object, ok := m["object"].(map[string]any); ok {
		m = object
	}
	metadata, ok := m["metadata"].(map[string]any)
	if !ok {
		return false
	}
	name, _ := metadata["name"].(string)
	return metadata["namespace"] != namespace && !own.MatchString(name)
}

// own matches the names of what the walk makes.
var own = regexp.MustCompile(`^(walk|missing|v1\.walk\.|nones\.none\.|192\.0\.2\.)`)

// tidy removes what differs between any two servers.
func tidy(v any) any {
	switch v := v.(type) {
	case []any:
		for i := range v {
			v[i] = tidy(v[i])
		}
	case map[string]any:
		for _, list := range []string{"items", "rows"} {
			if items, ok := v[list].([]any); ok {
				v[list] = slices.DeleteFunc(items, foreign)
			}
		}
		for key, value := range v {
			switch key {
			case "uid", "resourceVersion", "creationTimestamp", "deletionTimestamp", "time", "continue", "startTime", "lastTransitionTime", "expirationTimestamp", "token", "authentication.kubernetes.io/credential-id":
				if s, ok := value.(string); ok && s != "" {
					v[key] = "set"
				}
				if _, ok := value.([]any); ok {
					v[key] = "set"
				}
			default:
				v[key] = tidy(value)
			}
		}
	case string:
		v = uids.ReplaceAllString(v, "UID")
		return ages.ReplaceAllString(v, "AGE")
	}
	return v
}

var (
	uids = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`)
	ages = regexp.MustCompile(`^([0-9]+[smhd])+$`)
)

// flatten adds v's values under the paths that lead to them.
func (a aspects) flatten(path string, v any) {
	switch v := v.(type) {
	case map[string]any:
		if len(v) == 0 {
			a[path] = "{}"
		}
		for key, value := range v {
			a.flatten(path+"."+key, value)
		}
	case []any:
		if len(v) == 0 {
			a[path] = "[]"
		}
		for i, value := range v {
			a.flatten(fmt.Sprintf("%s[%d]", path, i), value)
		}
	default:
		a[path] = fmt.Sprintf("%#v", v)
	}
}

// difference is one aspect in which two responses differ.
type difference struct{ aspect, want, got string }

// differences compares two responses.
func differences(want, got aspects) (all []difference) {
	names := map[string]bool{}
	for name := range want {
		names[name] = true
	}
	for name := range got {
		names[name] = true
	}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		w, inWant := want[name]
		g, inGot := got[name]
		if w != g || inWant != inGot {
			if !inWant {
				w = "(none)"
			}
			if !inGot {
				g = "(none)"
			}
			all = append(all, difference{name, w, g})
		}
	}
	// If the codes differ, so do the rest.
	if i := slices.IndexFunc(all, func(d difference) bool { return d.aspect == "code" }); i >= 0 {
		all[i].want += " " + want[".message"] + want["body"]
		all[i].got += " " + got[".message"] + got["body"]
		return all[i : i+1]
	}
	return all
}
