package wire

import (
	"mime"
	"net/http"
	"sort"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A Shape is the form in which a response shows its objects.
type Shape int

const (
	Whole    Shape = iota
	Table          // rows and columns for people
	Metadata       // metadata only
	Groups         // aggregated discovery
)

// Output says how a response is written.
type Output struct {
	Media string
	Shape Shape
}

// Accepts says what an endpoint can write beside JSON.
type Accepts struct {
	Proto  bool // the objects themselves as protobuf
	Tables bool // tables and metadata only
	CBOR   bool
	Groups bool // aggregated discovery
	NoYAML bool // streams cannot be YAML
}

// Negotiate picks the best of what the client asks for in Accept and the
// endpoint can write. No Accept is JSON; nothing in common is an error.
func Negotiate(r *http.Request, can Accepts) (Output, error) {
	header := strings.Join(r.Header.Values("Accept"), ",")
	if strings.TrimSpace(header) == "" {
		return Output{Media: JSON}, nil
	}
	for _, c := range parseAccept(header) {
		if out, ok := can.match(c); ok {
			return out, nil
		}
	}
	list := []string{JSON}
	if !can.NoYAML {
		list = append(list, YAML)
	}
	if can.Proto {
		list = append(list, Proto)
	}
	return Output{}, StatusError(http.StatusNotAcceptable, metav1.StatusReasonNotAcceptable,
		"only the following media types are accepted: %s", strings.Join(list, ", "))
}

// clause is one alternative of an Accept header.
type clause struct {
	media  string
	params map[string]string
	q      float64
}

// parseAccept returns the clauses of an Accept header, best first: by q, then
// exact types before wildcards, then as they stand.
func parseAccept(header string) []clause {
	var all []clause
	for part := range strings.SplitSeq(header, ",") {
		media, params, err := mime.ParseMediaType(part)
		if err != nil {
			continue
		}
		c := clause{media, params, 1}
		if q, err := strconv.ParseFloat(params["q"], 64); err == nil {
			c.q = q
		}
		if c.q > 0 {
			all = append(all, c)
		}
	}
	// Not slices.SortStableFunc, which is compiled again for each struct: 7 kB.
	sort.SliceStable(all, func(i, j int) bool {
		if all[i].q != all[j].q {
			return all[i].q > all[j].q
		}
		return strings.Count(all[i].media, "*") < strings.Count(all[j].media, "*")
	})
	return all
}

func (can Accepts) match(c clause) (Output, bool) {
	out := Output{Media: c.media}
	switch c.media {
	case "*/*", "application/*", JSON:
		out.Media = JSON
	case YAML:
		if can.NoYAML {
			return out, false
		}
	case CBOR, CBORWatch:
		if !can.CBOR {
			return out, false
		}
		out.Media = CBOR
	case Proto:
	default:
		return out, false
	}
	version := c.params["g"] + "/" + c.params["v"]
	switch as := c.params["as"]; {
	case as == "":
		return out, out.Media != Proto || can.Proto
	case as == "Table" && version == "meta.k8s.io/v1" && can.Tables:
		out.Shape = Table
		return out, out.Media != Proto
	case (as == "PartialObjectMetadata" || as == "PartialObjectMetadataList") && version == "meta.k8s.io/v1" && can.Tables:
		out.Shape = Metadata
		return out, true
	case as == "APIGroupDiscoveryList" && version == "apidiscovery.k8s.io/v2" && can.Groups:
		out.Shape = Groups
		return out, out.Media == JSON
	}
	return out, false
}

// ContentType returns the media type of a request body without its
// parameters; JSON where the client does not say.
func ContentType(r *http.Request) string {
	header := r.Header.Get("Content-Type")
	if header == "" {
		return JSON
	}
	media, _, err := mime.ParseMediaType(header)
	if err != nil {
		return header
	}
	return media
}
