package apiserver

import (
	"errors"
	"net/url"
	"reflect"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
)

// options returns the options of a request: what admission sees of a connection, as in Kubernetes. It is nil for a
// subresource without a kind of its own, which is read, so that admission does not see it. rest is the path below
// the subresource.
func (p Proxy) options(query url.Values, rest string) (runtime.Object, error) {
	if p.Kind == "" || p.Options == nil {
		return nil, nil
	}
	out := p.Options()
	to := reflect.ValueOf(out).Elem()
	for i := range to.NumField() {
		name, _, _ := strings.Cut(to.Type().Field(i).Tag.Get("json"), ",")
		values := query[name]
		if name == "path" {
			values = []string{rest}
		}
		if name == "" || len(values) == 0 {
			continue
		}
		var err error
		switch into := to.Field(i).Addr().Interface().(type) {
		case *string:
			*into = values[0]
		case *[]string:
			*into = values
		case *bool:
			err = runtime.Convert_Slice_string_To_bool(&values, into, nil)
		case *[]int32:
			for text := range strings.SplitSeq(strings.Join(values, ","), ",") { // a value may have several
				n, wrong := strconv.ParseInt(text, 10, 32)
				err = errors.Join(err, wrong)
				*into = append(*into, int32(n))
			}
		}
		if err != nil {
			return nil, badRequest("%v", err)
		}
	}
	return out, nil
}

// behind returns what follows a subresource in the path of a request: "/x/" of /api/v1/nodes/a/proxy/x/.
func (q *request) behind() string {
	before := len([]string{"api", "v1", "RESOURCE", "NAME", "SUBRESOURCE"})
	if q.info.Group != "" {
		before++
	}
	if q.info.Namespace != "" {
		before += len([]string{"namespaces", "NAMESPACE"})
	}
	segments := strings.SplitN(strings.TrimPrefix(q.r.URL.Path, "/"), "/", before+1)
	if len(segments) <= before {
		return ""
	}
	return "/" + segments[before]
}
