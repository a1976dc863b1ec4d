package audit

import (
	"encoding/json"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/planekit/planekit/authn/user"
	"github.com/planekit/planekit/authz"
)

// event is audit.k8s.io/v1's Event, one line of the log.
type event struct {
	Kind         string `json:"kind"`
	APIVersion   string `json:"apiVersion"`
	Level        Level  `json:"level"`
	AuditID      string `json:"auditID"`
	Stage        Stage  `json:"stage"`
	RequestURI   string `json:"requestURI"`
	Verb         string `json:"verb"`
	User         who    `json:"user"`
	Impersonated *who   `json:"impersonatedUser,omitempty"`
	// Authentication is set if a constrained mode of impersonation allowed the request.
	Authentication *authentication   `json:"authenticationMetadata,omitempty"`
	SourceIPs      []string          `json:"sourceIPs,omitempty"`
	UserAgent      string            `json:"userAgent,omitempty"`
	ObjectRef      *reference        `json:"objectRef,omitempty"`
	Status         *status           `json:"responseStatus,omitempty"`
	Request        json.RawMessage   `json:"requestObject,omitempty"`
	Response       json.RawMessage   `json:"responseObject,omitempty"`
	Received       stamp             `json:"requestReceivedTimestamp"`
	Stamped        stamp             `json:"stageTimestamp"`
	Annotations    map[string]string `json:"annotations,omitempty"`
}

type who struct {
	Username string              `json:"username,omitempty"`
	UID      string              `json:"uid,omitempty"`
	Groups   []string            `json:"groups,omitempty"`
	Extra    map[string][]string `json:"extra,omitempty"`
}

type authentication struct {
	Constraint string `json:"impersonationConstraint"`
}

type reference struct {
	Resource    string `json:"resource,omitempty"`
	Namespace   string `json:"namespace,omitempty"`
	Name        string `json:"name,omitempty"`
	APIGroup    string `json:"apiGroup,omitempty"`
	APIVersion  string `json:"apiVersion,omitempty"`
	Subresource string `json:"subresource,omitempty"`
}

type status struct {
	Metadata struct{} `json:"metadata"`
	Status   string   `json:"status,omitempty"`
	Message  string   `json:"message,omitempty"`
	Reason   string   `json:"reason,omitempty"`
	Code     int      `json:"code"`
}

// stamp is a time in microseconds, as Kubernetes writes it.
type stamp time.Time

func (s stamp) MarshalJSON() ([]byte, error) {
	return json.Marshal(time.Time(s).UTC().Format("2006-01-02T15:04:05.000000Z07:00"))
}

func whoIs(u *user.Info) who {
	if u == nil {
		return who{}
	}
	return who{u.Name, u.UID, u.Groups, u.Extra}
}

func referenceTo(a authz.Attributes) *reference {
	if a.Resource == "" {
		return nil
	}
	return &reference{a.Resource, a.Namespace, a.Name, a.Group, a.Version, a.Subresource}
}

// maxSources bounds the addresses of one event; clients can claim any number.
const maxSources = 16

// sources are the addresses that a request says it came through, the peer's own
// last.
func sources(r *http.Request) []string {
	var all []string
	add := func(text string) {
		if ip := net.ParseIP(strings.TrimSpace(text)); ip != nil && len(all) < maxSources {
			all = append(all, ip.String())
		}
	}
	for part := range strings.SplitSeq(strings.Join(r.Header.Values("X-Forwarded-For"), ","), ",") {
		add(part)
	}
	if len(all) == 0 {
		add(r.Header.Get("X-Real-Ip"))
	}
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		return all
	}
	if ip := net.ParseIP(host); ip != nil && (len(all) == 0 || all[len(all)-1] != ip.String()) {
		all = append(all, ip.String())
	}
	return all
}

// withoutManagedFields takes metadata.managedFields out of an object, or out of
// the items of a list.
func withoutManagedFields(data json.RawMessage) json.RawMessage {
	var obj map[string]any
	if json.Unmarshal(data, &obj) != nil {
		return data
	}
	strip := func(v any) {
		if o, ok := v.(map[string]any); ok {
			if m, ok := o["metadata"].(map[string]any); ok {
				delete(m, "managedFields")
			}
		}
	}
	strip(obj)
	if items, ok := obj["items"].([]any); ok {
		for _, item := range items {
			strip(item)
		}
	}
	out, err := json.Marshal(obj)
	if err != nil {
		return data
	}
	return out
}
