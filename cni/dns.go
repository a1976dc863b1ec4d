package cni

import (
	"bytes"
	"strings"
)

// DNS is the configuration of a resolver.
type DNS struct {
	Nameservers []string `json:"nameservers,omitempty"`
	Domain      string   `json:"domain,omitempty"`
	Search      []string `json:"search,omitempty"`
	Options     []string `json:"options,omitempty"`
}

// IsZero reports whether d configures nothing.
func (d DNS) IsZero() bool {
	return len(d.Nameservers) == 0 && d.Domain == "" && len(d.Search) == 0 && len(d.Options) == 0
}

// ParseResolvConf reads the contents of resolv.conf(5). It ignores what [DNS] cannot express. A later
// domain replaces an earlier one; name servers, search domains and options accumulate.
func ParseResolvConf(data []byte) DNS {
	var d DNS
	for line := range bytes.Lines(data) {
		words := strings.Fields(string(line))
		if len(words) < 2 || words[0][0] == '#' || words[0][0] == ';' {
			continue
		}
		switch words[0] {
		case "nameserver":
			d.Nameservers = append(d.Nameservers, words[1])
		case "domain":
			d.Domain = words[1]
		case "search":
			d.Search = append(d.Search, words[1:]...)
		case "options":
			d.Options = append(d.Options, words[1:]...)
		}
	}
	return d
}

// ResolvConf returns d as the contents of resolv.conf(5). It leaves out values with a space or a
// newline, because plugins choose them and a container's resolver would read other lines than these.
func (d DNS) ResolvConf() []byte {
	var b bytes.Buffer
	line := func(keyword string, values ...string) {
		var good []string
		for _, v := range values {
			if len(strings.Fields(v)) == 1 && strings.Fields(v)[0] == v {
				good = append(good, v)
			}
		}
		if len(good) > 0 {
			b.WriteString(keyword + " " + strings.Join(good, " ") + "\n")
		}
	}
	for _, server := range d.Nameservers {
		line("nameserver", server)
	}
	line("domain", d.Domain)
	line("search", d.Search...)
	line("options", d.Options...)
	return b.Bytes()
}
