package wire

import (
	"mime"
	"net/http"
	"slices"
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
	// List is set for the metadata of a list.
	List bool
	// Beta is set for tables and metadata in the version v1beta1 of meta.k8s.io.
	Beta bool
	// Pretty is set for JSON that people read: indented.
	Pretty bool
}

// Accepts says what an endpoint can write beside JSON.
type Accepts struct {
	Proto  bool // the objects themselves as protobuf
	Tables bool // tables
	Parts  bool // metadata only
	CBOR   bool
	Groups bool // aggregated discovery
	Stream bool // events of a watch, which cannot be YAML
	Lists  bool // a list, or such events, under one path
}

// Negotiate picks the best of what the client asks for in Accept and the
// endpoint can write. No Accept is JSON; nothing in common is an error. The rules are those of kube-apiserver.
func Negotiate(r *http.Request, can Accepts) (Output, error) {
	a := ParseAccept(r)
	if err := a.Check(can); err != nil {
		return Output{}, err
	}
	return a.Negotiate(can)
}

// Check fails if the client accepts no media type that the endpoint has. The words are those of kube-apiserver,
// whose routes are looked up by them: a request that fails here has reached no resource.
func (a Accept) Check(can Accepts) error {
	if a.clauses == nil || slices.ContainsFunc(a.clauses, can.knows) {
		return nil
	}
	media, streams := can.media()
	if can.Lists {
		media = append(media, streams...)
	}
	return StatusError(http.StatusNotAcceptable, metav1.StatusReasonNotAcceptable, "406: Not Acceptable\n\nAvailable representations: %s", strings.Join(media, ", "))
}

// Negotiate is [Negotiate] after Check.
func (a Accept) Negotiate(can Accepts) (Output, error) {
	if a.clauses == nil {
		return Output{Media: JSON, Pretty: wantsPretty(a.r)}, nil
	}
	for _, c := range a.clauses {
		for _, media := range []string{JSON, YAML, Proto, CBOR} {
			if c.media != media && c.media != "*/*" && c.media != "application/*" && (c.media != CBORWatch || media != CBOR) {
				continue
			}
			if out, ok := can.match(media, c.params); ok {
				if can.Stream && media == YAML {
					return Output{}, can.refuse()
				}
				out.Pretty = media == JSON && (out.Pretty || wantsPretty(a.r))
				return out, nil
			}
		}
	}
	return Output{}, can.refuse()
}

// knows reports whether the endpoint has the media type of a clause.
func (can Accepts) knows(c clause) bool {
	switch c.media {
	case JSON, YAML, "*/*", "application/*":
		return true
	case Proto:
		return can.Proto
	case CBOR:
		return can.CBOR
	}
	return c.media == CBORWatch && can.Lists
}

// media returns the media types of objects, and of events of a watch.
func (can Accepts) media() (list, streams []string) {
	list, streams = []string{JSON, YAML}, []string{JSON + ";stream=watch"}
	if can.Proto {
		list, streams = append(list, Proto), append(streams, Proto+";stream=watch")
	}
	if can.CBOR {
		list, streams = append(list, CBOR), append(streams, CBORWatch)
	}
	return list, streams
}

// refuse returns the error of a client that accepts known media types, and nothing of what can be written in them.
func (can Accepts) refuse() error {
	list, streams := can.media()
	if can.Stream {
		list = streams
	}
	return StatusError(http.StatusNotAcceptable, metav1.StatusReasonNotAcceptable, "only the following media types are accepted: %s", strings.Join(list, ", "))
}

// wantsPretty reports whether the client, or a person with a browser, wants indented JSON.
func wantsPretty(r *http.Request) bool {
	if text := r.URL.Query().Get("pretty"); text != "" {
		pretty, err := strconv.ParseBool(text)
		return err == nil && pretty
	}
	agent := r.UserAgent()
	return strings.HasPrefix(agent, "curl") || strings.HasPrefix(agent, "Wget") || strings.HasPrefix(agent, "Mozilla/5.0")
}

// clause is one alternative of an Accept header.
type clause struct {
	media  string
	params map[string]string
	q      float64
}

// Accept holds the parsed Accept header of a request.
type Accept struct {
	r       *http.Request
	clauses []clause // nil without the header
}

// ParseAccept reads the header Accept of r.
func ParseAccept(r *http.Request) Accept {
	a := Accept{r: r}
	if header := strings.Join(r.Header.Values("Accept"), ","); header != "" {
		a.clauses = parseAccept(header)
	}
	return a
}

// parseAccept returns the clauses of an Accept header, best first: by q, then
// exact types before wildcards, then as they stand. Parameters without a value count for nothing.
func parseAccept(header string) []clause {
	var all []clause
	for part := range strings.SplitSeq(header, ",") {
		media, rest, _ := strings.Cut(part, ";")
		c := clause{media: strings.Trim(media, " "), params: map[string]string{}, q: 1}
		if c.media == "*" {
			c.media = "*/*"
		}
		for parameter := range strings.SplitSeq(rest, ";") {
			name, value, _ := strings.Cut(parameter, "=")
			if name = strings.Trim(name, " "); value == "" || strings.Contains(value, "=") {
				continue
			}
			if name == "q" {
				c.q, _ = strconv.ParseFloat(value, 32)
				continue
			}
			c.params[name] = strings.Trim(value, " ")
		}
		all = append(all, c)
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

// match returns what a client gets that asks for media with parameters.
func (can Accepts) match(media string, params map[string]string) (Output, bool) {
	out := Output{Media: media, Pretty: params["pretty"] == "1"}
	if stream := params["stream"]; stream != "" && (stream != "watch" || media == YAML) {
		return out, false
	}
	if media == CBOR && !can.CBOR || params["sv"] != "" {
		return out, false
	}
	as, version := params["as"], params["g"]+"/"+params["v"]
	out.Beta = version == "meta.k8s.io/v1beta1"
	switch meta := out.Beta || version == "meta.k8s.io/v1"; {
	case as == "" && version == "/":
		return out, media != Proto || can.Proto
	case as == "Table" && meta && can.Tables:
		out.Shape = Table
		return out, media == JSON || media == YAML
	case (as == "PartialObjectMetadata" || as == "PartialObjectMetadataList") && meta && can.Parts:
		out.Shape, out.List = Metadata, as == "PartialObjectMetadataList"
		return out, true
	case as == "APIGroupDiscoveryList" && version == "apidiscovery.k8s.io/v2" && can.Groups:
		out.Shape = Groups
		return out, media == JSON
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
