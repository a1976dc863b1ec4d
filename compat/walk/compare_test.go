package walk

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/planekit/planekit/compat/pair"
)

// headers lists the headers that are compared.
var headers = []string{"Content-Type", "Warning", "Cache-Control", "Allow", "Location", "Retry-After", "X-Content-Type-Options", "Www-Authenticate"}

// aspectsOf takes a response apart.
func aspectsOf(r pair.Request, a pair.Answer) pair.Aspects {
	all := pair.Aspects{"code": fmt.Sprint(a.Code)}
	for _, name := range headers {
		if values := a.Header.Values(name); len(values) > 0 {
			all["header "+name] = strings.Join(values, "\n")
		}
	}
	if len(a.Body) == 0 {
		all["body"] = "empty"
		return all
	}
	if strings.HasPrefix(r.Path, "/openapi") || r.Path == "/metrics" {
		return all // other tests compare them
	}
	found, ok, err := documents(a.Header.Get("Content-Type"), a.Body)
	switch {
	case err != nil:
		all["body"] = err.Error()
	case !ok:
		all["body"] = fmt.Sprintf("%.1000s", a.Body)
	case strings.HasPrefix(a.Header.Get("Content-Type"), "application/json"):
		all["indented"] = fmt.Sprint(indented(a.Body))
		all["line end"] = fmt.Sprint(a.Body[len(a.Body)-1] == '\n')
	}
	if len(found) == 1 && !watches(found[0]) {
		all.Flatten("", tidy(found[0]))
		return all
	}
	for i, v := range events(found) {
		all.Flatten(fmt.Sprint("event ", i), v)
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
	return metadata["namespace"] != pair.Namespace && !own.MatchString(name)
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
