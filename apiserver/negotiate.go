package apiserver

import (
	"mime"
	"net/http"
	"sort"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// shape is what a response shows of its objects.
type shape int

const (
	whole     shape = iota
	asTable         // rows and columns for people
	asPartial       // metadata only
	asGroups        // aggregated discovery
)

// output is how a response is written.
type output struct {
	media string
	shape shape
}

// accepts says what an endpoint could write beside JSON as it is.
type accepts struct {
	proto  bool // the objects themselves as protobuf
	tables bool // tables and metadata only
	groups bool // aggregated discovery
	noYAML bool // streams cannot be YAML
}

// negotiate picks the best of what the client asks for in Accept and the
// endpoint can write. No Accept is JSON; nothing in common is an error.
func negotiate(r *http.Request, can accepts) (output, error) {
	header := strings.Join(r.Header.Values("Accept"), ",")
	if strings.TrimSpace(header) == "" {
		return output{media: mediaJSON}, nil
	}
	for _, c := range parseAccept(header) {
		if out, ok := can.match(c); ok {
			return out, nil
		}
	}
	list := []string{mediaJSON}
	if !can.noYAML {
		list = append(list, mediaYAML)
	}
	if can.proto {
		list = append(list, mediaProto)
	}
	return output{}, statusError(http.StatusNotAcceptable, metav1.StatusReasonNotAcceptable,
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
	// Not slices.SortStableFunc, which is compiled anew for each struct: 7 kB.
	sort.SliceStable(all, func(i, j int) bool {
		if all[i].q != all[j].q {
			return all[i].q > all[j].q
		}
		return strings.Count(all[i].media, "*") < strings.Count(all[j].media, "*")
	})
	return all
}

func (can accepts) match(c clause) (output, bool) {
	out := output{media: c.media}
	switch c.media {
	case "*/*", "application/*", mediaJSON:
		out.media = mediaJSON
	case mediaYAML:
		if can.noYAML {
			return out, false
		}
	case mediaProto:
	default:
		return out, false
	}
	version := c.params["g"] + "/" + c.params["v"]
	switch as := c.params["as"]; {
	case as == "":
		return out, out.media != mediaProto || can.proto
	case as == "Table" && version == "meta.k8s.io/v1" && can.tables:
		out.shape = asTable
		return out, out.media != mediaProto
	case (as == "PartialObjectMetadata" || as == "PartialObjectMetadataList") && version == "meta.k8s.io/v1" && can.tables:
		out.shape = asPartial
		return out, true
	case as == "APIGroupDiscoveryList" && version == "apidiscovery.k8s.io/v2" && can.groups:
		out.shape = asGroups
		return out, out.media == mediaJSON
	}
	return out, false
}

// contentType returns the media type of a request body without its
// parameters; JSON where the client does not say.
func contentType(r *http.Request) string {
	header := r.Header.Get("Content-Type")
	if header == "" {
		return mediaJSON
	}
	media, _, err := mime.ParseMediaType(header)
	if err != nil {
		return header
	}
	return media
}
