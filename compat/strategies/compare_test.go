package strategies

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/planekit/planekit/compat/pair"
)

var (
	uids = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`)
	// credentials is about the certificate or token of a request.
	credentials = regexp.MustCompile(`,?"extra":{"authentication.kubernetes.io/credential-id":[^}]*}`)
	versions    = regexp.MustCompile(`"resourceVersion":"[0-9]+"`)
	issuers     = regexp.MustCompile(`"https://(stock|kubernetes\.default\.svc)"`)
	// keys matches keys of maps, whose order is random in kube-apiserver.
	keys      = regexp.MustCompile(`\[[^\]]*[^0-9\]][^\]]*\]`)
	records   = regexp.MustCompile(`in record \([0-9]+\)`)
	tokens    = regexp.MustCompile(`"token":"ey[^"]*"`)
	times     = regexp.MustCompile(`"20[0-9]{2}-[0-9]{2}-[0-9]{2}T[0-9:.]+Z"`)
	addresses = regexp.MustCompile(`"(10\.0\.0|198\.51\.100)\.[0-9]+"`)
	ports     = regexp.MustCompile(`"(nodePort|healthCheckNodePort)":3[0-9]{4}`)
)

// tidy replaces what any two servers choose differently and the request does not have: UIDs, resourceVersions, the time,
// addresses and ports of services.
func tidy(body, request string) string {
	keep := func(pattern *regexp.Regexp, with string) {
		body = pattern.ReplaceAllStringFunc(body, func(s string) string {
			if strings.Contains(request, s) {
				return s
			}
			return pattern.ReplaceAllString(s, with)
		})
	}
	body = uids.ReplaceAllStringFunc(body, func(s string) string { return map[bool]string{true: s, false: "UID"}[s == uid] })
	body = credentials.ReplaceAllString(body, "")
	body = tokens.ReplaceAllString(body, `"token":"TOKEN"`)
	body = issuers.ReplaceAllString(body, `"ISSUER"`)
	body = records.ReplaceAllString(body, "in record (VERSION)")
	keep(addresses, `"ADDRESS"`)
	keep(ports, `"$1":"PORT"`)
	body = versions.ReplaceAllString(body, `"resourceVersion":"VERSION"`)
	return times.ReplaceAllStringFunc(body, func(s string) string {
		when, err := time.Parse(time.RFC3339, strings.Trim(s, `"`))
		if err != nil || time.Since(when).Abs() > time.Hour {
			return s
		}
		return `"NOW"`
	})
}

// aspectsOf takes a response apart.
func aspectsOf(r pair.Request, a pair.Answer) pair.Aspects {
	all := pair.Aspects{"code": fmt.Sprint(a.Code)}
	if values := a.Header.Values("Warning"); len(values) > 0 {
		all["header Warning"] = strings.Join(values, "\n")
	}
	text := tidy(string(a.Body), string(r.Body))
	var v map[string]any
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		all["body"] = text
		return all
	}
	if v["kind"] == "SelfSubjectRulesReview" {
		delete(v, "status") // another test compares it; kube-apiserver does not sort the rules
	}
	if m, ok := v["metadata"].(map[string]any); ok && v["kind"] == "ClusterRole" && v["aggregationRule"] != nil {
		delete(m, "managedFields") // of a plane's controller too, which aggregates
	}
	if v["kind"] == "FlowSchema" || v["kind"] == "PriorityLevelConfiguration" {
		delete(v, "status") // kube-apiserver has a controller for it, which does not run in the plane
	}
	details, _ := v["details"].(map[string]any)
	if v["kind"] == "Status" && details != nil && details["causes"] != nil {
		// An object with several mistakes: each of them is compared, and then their order.
		causes, _ := details["causes"].([]any)
		delete(details, "causes")
		var order []string
		count := map[string]int{}
		for _, c := range causes {
			c, _ := c.(map[string]any)
			name := fmt.Sprintf("cause of %v: %v: %v", c["field"], c["reason"], c["message"])
			count[name]++
			all[name] = fmt.Sprint(count[name], " times")
			order = append(order, keys.ReplaceAllString(fmt.Sprint(c["field"]), "[]"))
		}
		all["~order"] = strings.Join(order, "; ")
		all["~message"], _, _ = strings.Cut(fmt.Sprint(v["message"]), " is invalid: ") // the rest is that of the causes
		delete(v, "message")
	}
	if details != nil && len(details) == 0 {
		delete(v, "details") // one of the rows of COMPATIBILITY.md
	}
	all.Flatten("", v)
	if v["kind"] != "Status" && v["kind"] != "SelfSubjectRulesReview" && !strings.HasPrefix(r.Path, "/apis/flowcontrol") {
		all["~bytes"] = text
	}
	return all
}

// differencesOf compares two responses. The order of causes, the message made of them and the bytes count only where
// nothing else differs.
func differencesOf(r, theirs pair.Request, want, got pair.Answer) []pair.Difference {
	wanted, have := aspectsOf(theirs, want), aspectsOf(r, got)
	all := pair.Differences(wanted, have)
	if len(all) == 1 && all[0].Aspect == "code" {
		if wanted["~message"]+have["~message"] != "" { // one has several causes
			all[0].Want, all[0].Got = all[0].Want+string(want.Body), all[0].Got+string(got.Body)
		}
		return all
	}
	var most []pair.Difference
	owners := false
	for _, d := range all {
		if strings.HasPrefix(d.Aspect, ".metadata.managedFields[") {
			if owners {
				continue // one of them is enough
			}
			owners = true
		}
		if !strings.HasPrefix(d.Aspect, "~") {
			most = append(most, d)
		}
	}
	if len(most) > 0 || len(all) == 0 {
		return most
	}
	d := all[0]
	if d.Aspect == "~bytes" {
		i := 0
		for i < min(len(d.Want), len(d.Got)) && d.Want[i] == d.Got[i] {
			i++
		}
		d.Want, d.Got = d.Want[max(0, i-30):min(len(d.Want), i+60)], d.Got[max(0, i-30):min(len(d.Got), i+60)]
	}
	return []pair.Difference{d}
}
