package podconfig

import "net/http"

// WithClient returns the options with a client for the requests, see URLOptions.client.
func (o URLOptions) WithClient(client *http.Client) URLOptions {
	o.client = client
	return o
}
