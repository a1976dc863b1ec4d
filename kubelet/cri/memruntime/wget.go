package memruntime

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Wget returns the command wget of BusyBox, which connects by dial and writes to its standard output:
// wget [-q] [-T SECONDS] -O - URL. Addresses have the form HOST:PORT. All other commands are nil.
func Wget(command []string, dial func(ctx context.Context, network, address string) (net.Conn, error)) Program {
	if len(command) == 0 || command[0][strings.LastIndexByte(command[0], '/')+1:] != "wget" {
		return nil
	}
	return func(ctx context.Context, s Streams) int32 {
		url, timeout, err := wgetArguments(command[1:])
		if err == nil {
			err = wget(ctx, s.Stdout, url, timeout, dial)
		}
		if err != nil {
			fmt.Fprintf(s.Stderr, "wget: %v\n", err)
			return 1
		}
		return 0
	}
}

// wgetTimeout is the time for the whole answer without -T, as that of BusyBox.
const wgetTimeout = 900 * time.Second

func wgetArguments(args []string) (url string, timeout time.Duration, err error) {
	timeout = wgetTimeout
	output := ""
	for len(args) > 0 {
		arg := args[0]
		args = args[1:]
		flags, isFlag := strings.CutPrefix(arg, "-")
		switch {
		case !isFlag && url == "":
			url = arg
			continue
		case !isFlag:
			return "", 0, errors.New("one URL at a time")
		}
		for flags = strings.TrimPrefix(flags, "q"); flags != ""; flags = strings.TrimPrefix(flags, "q") {
			value := flags[1:]
			if value == "" && len(args) > 0 {
				value, args = args[0], args[1:]
			}
			switch flags[0] {
			case 'O':
				output = value
			case 'T':
				seconds, err := strconv.Atoi(value)
				if err != nil || seconds <= 0 {
					return "", 0, fmt.Errorf("invalid number '%s'", value)
				}
				timeout = time.Duration(seconds) * time.Second
			default:
				return "", 0, fmt.Errorf("unrecognized option: %s", flags[:1])
			}
			flags = ""
		}
	}
	switch {
	case url == "":
		return "", 0, errors.New("missing URL")
	case output != "-":
		return "", 0, errors.New("there are no files: use -O -")
	}
	if !strings.Contains(url, "://") {
		url = "http://" + url
	}
	return url, timeout, nil
}

func wget(ctx context.Context, to io.Writer, url string, timeout time.Duration, dial func(ctx context.Context, network, address string) (net.Conn, error)) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil || request.URL.Scheme != "http" {
		return fmt.Errorf("not an http url: %s", url)
	}
	transport := &http.Transport{DialContext: dial, DisableKeepAlives: true, DisableCompression: true}
	defer transport.CloseIdleConnections()
	answer, err := (&http.Client{Transport: transport}).Do(request)
	if err != nil {
		return wgetError(request, err)
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("server returned error: %s %s", answer.Proto, answer.Status)
	}
	_, err = io.Copy(to, answer.Body)
	return err
}

// wgetError returns an error in the words of BusyBox.
func wgetError(request *http.Request, err error) error {
	unknown, ok := errors.AsType[*net.DNSError](err)
	errno, isErrno := errors.AsType[syscall.Errno](err)
	switch {
	case ok:
		return fmt.Errorf("bad address '%s'", unknown.Name)
	case errors.Is(err, context.DeadlineExceeded):
		return errors.New("download timed out")
	case isErrno:
		reason := errno.Error()
		return fmt.Errorf("can't connect to remote host (%s): %s", request.URL.Hostname(), strings.ToUpper(reason[:1])+reason[1:])
	}
	return err
}
