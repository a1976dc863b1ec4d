package nodeproxy

import (
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"mime"
	"net/http"
	"net/url"
	"slices"

	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"
)

// links maps HTML elements to their attributes that are URLs. The table is that of kube-apiserver.
var links = map[atom.Atom][]string{
	atom.A:          {"href"},
	atom.Applet:     {"codebase"},
	atom.Area:       {"href"},
	atom.Audio:      {"src"},
	atom.Base:       {"href"},
	atom.Blockquote: {"cite"},
	atom.Body:       {"background"},
	atom.Button:     {"formaction"},
	atom.Command:    {"icon"},
	atom.Del:        {"cite"},
	atom.Embed:      {"src"},
	atom.Form:       {"action"},
	atom.Frame:      {"longdesc", "src"},
	atom.Head:       {"profile"},
	atom.Html:       {"manifest"},
	atom.Iframe:     {"longdesc", "src"},
	atom.Img:        {"longdesc", "src", "usemap"},
	atom.Input:      {"src", "usemap", "formaction"},
	atom.Ins:        {"cite"},
	atom.Link:       {"href"},
	atom.Object:     {"classid", "codebase", "data", "usemap"},
	atom.Q:          {"cite"},
	atom.Script:     {"src"},
	atom.Source:     {"src"},
	atom.Video:      {"poster", "src"},
}

// longestTag bounds the bytes that are buffered to find the end of a tag, a comment or a text. From a longer one on, a page passes
// unchanged.
const longestTag = 1 << 20

// withoutPage lists the codes of responses that have no whole page: upgrades, and those with a part of a body or none.
var withoutPage = []int{http.StatusSwitchingProtocols, http.StatusNoContent, http.StatusPartialContent, http.StatusNotModified}

// relink rewrites the links of a page to its own server so that they lead through the proxy. It leaves other responses, parts of
// pages, and pages that are compressed in another way than gzip as they are.
func (b *backend) relink(answer *http.Response, client *http.Request) {
	media, _, err := mime.ParseMediaType(answer.Header.Get("Content-Type"))
	if err != nil || media != "text/html" || b.prefix == "" || client.Method == http.MethodHead || slices.Contains(withoutPage, answer.StatusCode) {
		return
	}
	var text io.Reader = answer.Body
	switch answer.Header.Get("Content-Encoding") {
	case "":
	case "gzip":
		text = &unzipped{from: answer.Body}
		answer.Header.Del("Content-Encoding")
	default:
		return
	}
	answer.Header.Del("Content-Length")
	answer.ContentLength = -1
	tags := html.NewTokenizer(text)
	tags.SetMaxBuf(longestTag)
	answer.Body = &page{ReadCloser: answer.Body, text: text, tags: tags, relink: func(to *url.URL) bool { return b.through(to, client) }}
}

// unzipped decompresses a body. It reads nothing before the first Read, so that the response's header does not wait for the body,
// and an empty body stays empty.
type unzipped struct {
	from io.Reader
	zip  *gzip.Reader
}

func (u *unzipped) Read(into []byte) (n int, err error) {
	if u.zip == nil {
		if u.zip, err = gzip.NewReader(u.from); err != nil {
			return 0, err
		}
	}
	return u.zip.Read(into)
}

// page is the body of a response whose links are rewritten as it is read.
type page struct {
	io.ReadCloser
	text   io.Reader // what tags reads
	tags   *html.Tokenizer
	relink func(*url.URL) bool
	ready  bytes.Buffer // written, and not yet read
	rest   io.Reader    // what follows ready, if no more tags are looked for
}

func (p *page) Read(into []byte) (int, error) {
	for p.ready.Len() == 0 && p.rest == nil {
		p.next()
	}
	if p.ready.Len() > 0 {
		return p.ready.Read(into)
	}
	return p.rest.Read(into)
}

// next writes a token.
func (p *page) next() {
	switch p.tags.Next() {
	case html.ErrorToken:
		p.ready.Write(p.tags.Raw())
		p.rest = failed{p.tags.Err()}
		if errors.Is(p.tags.Err(), html.ErrBufferExceeded) {
			p.ready.Write(p.tags.Buffered())
			p.rest = p.text
		}
	case html.StartTagToken, html.SelfClosingTagToken:
		raw := slices.Clone(p.tags.Raw())
		if token := p.tags.Token(); p.change(&token) {
			raw = []byte(token.String())
		}
		p.ready.Write(raw)
	default:
		p.ready.Write(p.tags.Raw())
	}
}

// change rewrites the links of a tag, and reports whether it has some.
func (p *page) change(token *html.Token) (changed bool) {
	for i := range token.Attr {
		a := &token.Attr[i]
		if !slices.Contains(links[token.DataAtom], a.Key) {
			continue
		}
		if to, err := url.Parse(a.Val); err == nil && p.relink(to) {
			a.Val, changed = to.String(), true
		}
	}
	return changed
}

// failed returns an error from each Read; io.EOF at the end of a page.
type failed struct{ err error }

func (f failed) Read([]byte) (int, error) { return 0, f.err }
